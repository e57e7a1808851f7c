"""What is really in the vaults: a plain S3 listing, nothing of Sexton. Every number is held against it."""

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
    """List every object but Sexton's audit, which grows with each round.

    Its marker counts as one of 0 bytes: each round writes its number into it.
    """
    found = {}
    for vault in vaults:
        for page in _pages(vault):
            for entry in page.iter(f"{_XML}Contents"):
                key = _text(entry, "Key").removeprefix(vault.prefix)
                if key.startswith("_sexton/audit/"):
                    continue
                found[vault.name, key] = 0 if key.startswith("_sexton/") else int(_text(entry, "Size"))
    return found


def count(vaults: Iterable["Vault"]) -> int:
    """List every object and only count them, all vaults at once: fast enough to watch a deletion."""
    with ThreadPoolExecutor() as pool:
        return sum(pool.map(lambda vault: sum(len(page.findall(f"{_XML}Contents")) for page in _pages(vault)), vaults))


def _pages(vault: "Vault") -> Iterator[ElementTree.Element]:
    """Yield the pages of a listing as the server sends them; boto3 signs, but its parser takes ten times as long."""
    where = {"Bucket": vault.bucket, "Prefix": vault.prefix}
    while True:
        url = vault.client.generate_presigned_url("list_objects_v2", Params=where)
        with _DIRECT.open(url, timeout=30) as reply:
            page = ElementTree.fromstring(reply.read())
        yield page
        if page.findtext(f"{_XML}IsTruncated") != "true":
            return
        where["ContinuationToken"] = _text(page, "NextContinuationToken")


def _text(entry: ElementTree.Element, name: str) -> str:
    found = entry.findtext(_XML + name)
    if found is None:
        raise ValueError(f"the listing has no {name} where it must have one")
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
