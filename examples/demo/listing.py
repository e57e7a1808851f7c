"""List the vaults with plain S3 requests, without any code of Sexton. Every number of the demo is compared with it."""

import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from examples.minidb import Vault

Key = tuple[str, str]
"""(vault, key relative to it)."""
Objects = Mapping[Key, int]
"""Size in bytes of each object."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def listing(vaults: Iterable["Vault"]) -> dict[Key, int]:
    """List every object except Sexton's audit, which grows with each round.

    Sexton's marker of a vault counts as an object of 0 bytes: each round writes its number into it.
    """
    sizes = {}
    for vault in vaults:
        for page in _pages(vault):
            for entry in page.iter(f"{_XML}Contents"):
                key = _text(entry, "Key").removeprefix(vault.prefix)
                if key.startswith("_sexton/audit/"):
                    continue
                sizes[vault.name, key] = 0 if key.startswith("_sexton/") else int(_text(entry, "Size"))
    return sizes


def count(vaults: Iterable["Vault"]) -> int:
    """Count every object except Sexton's own, all vaults at once: fast enough to watch a deletion."""
    with ThreadPoolExecutor() as pool:
        return sum(pool.map(_count_data, vaults))


def _count_data(vault: "Vault") -> int:
    keys = (_text(entry, "Key") for page in _pages(vault) for entry in page.iter(f"{_XML}Contents"))
    return sum(not key.removeprefix(vault.prefix).startswith("_sexton/") for key in keys)


def _pages(vault: "Vault") -> Iterator[ElementTree.Element]:
    """Yield the pages of a listing as the server sends them; boto3 signs, but its parser takes ten times as long."""
    parameters = {"Bucket": vault.bucket, "Prefix": vault.prefix}
    while True:
        url = vault.client.generate_presigned_url("list_objects_v2", Params=parameters)
        with _DIRECT.open(url, timeout=30) as reply:
            page = ElementTree.fromstring(reply.read())
        yield page
        if page.findtext(f"{_XML}IsTruncated") != "true":
            return
        parameters["ContinuationToken"] = _text(page, "NextContinuationToken")


def _text(entry: ElementTree.Element, name: str) -> str:
    text = entry.findtext(_XML + name)
    if text is None:
        raise ValueError(f"an element of the listing has no {name}")
    return text


def without(objects: Objects, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the objects except those with these keys."""
    excluded = set(keys)
    return {key: size for key, size in objects.items() if key not in excluded}


def only(objects: Objects, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the objects with these keys."""
    included = set(keys)
    return {key: size for key, size in objects.items() if key in included}


def in_vault(objects: Objects, vault: str) -> dict[Key, int]:
    """Return the objects of one vault."""
    return {key: size for key, size in objects.items() if key[0] == vault}


def summary(objects: Objects) -> str:
    """Return count and bytes as the screen shows them."""
    return f"{len(objects):,} objects, {sum(objects.values()):,} bytes"
