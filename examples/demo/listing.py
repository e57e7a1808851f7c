"""What is really in the vaults: a plain S3 listing, nothing of Sexton. Every number is held against it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.minidb import Vault

Key = tuple[str, str]
"""(vault, key relative to it)."""
Objects = Mapping[Key, int]
"""Size in bytes of each object."""


def listing(vaults: Iterable["Vault"]) -> dict[Key, int]:
    """List every object. Sexton's marker counts as one of 0 bytes: each round writes its number into it."""
    found = {}
    for vault in vaults:
        pages = vault.client.get_paginator("list_objects_v2").paginate(Bucket=vault.bucket, Prefix=vault.prefix)
        for page in pages:
            for entry in page.get("Contents", ()):
                key = entry["Key"].removeprefix(vault.prefix)
                found[vault.name, key] = 0 if key.startswith("_sexton/") else entry["Size"]
    return found


def without(objects: Objects, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the objects but for these keys."""
    gone = set(keys)
    return {key: size for key, size in objects.items() if key not in gone}


def only(objects: Objects, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the objects with these keys."""
    wanted = set(keys)
    return {key: size for key, size in objects.items() if key in wanted}


def in_vault(objects: Objects, vault: str) -> dict[Key, int]:
    """Return the objects of one vault."""
    return {key: size for key, size in objects.items() if key[0] == vault}


def told(objects: Objects) -> str:
    """Return count and bytes as the screen shows them."""
    return f"{len(objects):,} objects, {sum(objects.values()):,} bytes"
