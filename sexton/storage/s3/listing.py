"""Listings of an S3 bucket: complete or a fault, whatever the store's order and page sizes are."""

import operator
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sexton.storage.model import PAGE_KEYS, Listed
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.listing_page import Entries

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

SECONDS = len("YYYY-MM-DDTHH:MM:SS")
FOLDER_PAGES = 10
"""Pages in which a folder's folders are looked for: one with more is listed as it is, or cut by keys."""


def pages(
    bucket: S3Bucket, prefix: str, *, loose: bool = False, after: str = "", until: str = ""
) -> Iterator[list[Listed]]:
    """Yield pages of the objects under a prefix relative to the vault's; Sexton's own ones as well.

    Args:
        bucket: the vault's.
        prefix: empty for the whole vault.
        loose: only those that lie in no folder below it.
        after: only keys beyond this; the store lists in byte order then, or the listing is refused.
        until: and only up to this; as ``after``.

    Raises:
        VaultFault: the store does not answer, or its pages cannot be all that there is.
    """
    under = bucket.full(prefix)
    last, token, root = "", "", len(bucket.prefix)
    by_bytes, by_path = True, not (after or until)
    while True:
        reply = _page(bucket, under, token, after=bucket.full(after) if after else "", loose=loose)
        found = reply.get("Contents", ())
        keys, sizes, etags, written = (found if isinstance(found, Entries) else Entries.of(found)).columns
        if bucket.prefix in keys:  # the folder placeholder of the vault itself is no object in it
            at = keys.index(bucket.prefix)
            keys, sizes = [*keys[:at], *keys[at + 1 :]], [*sizes[:at], *sizes[at + 1 :]]
            etags, written = [*etags[:at], *etags[at + 1 :]], [*written[:at], *written[at + 1 :]]
        for key in keys:
            if not key.startswith(under) or (loose and "/" in key[len(under) :]):
                raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {under!r}")
        # A key that steps back means a page repeated or out of place, hence perhaps another one left out.
        by_bytes = by_bytes and _rise(last, keys)
        by_path = by_path and _rise(last.replace("/", "\0"), [key.replace("/", "\0") for key in keys])
        if not (by_bytes or by_path) or (after and keys and keys[0] <= bucket.full(after)):
            raise bucket.fault("BAD_REPLY", f"a page from {keys[0]!r} on is in no order, or was listed before")
        last = keys[-1] if keys else last
        if until and last > bucket.full(until):
            keys = [key for key in keys if key <= bucket.full(until)]
            reply["IsTruncated"] = False
        names = [key[root:] for key in keys] if root else keys
        page = [
            Listed(name, size, etag.strip('"'), when[:SECONDS])
            for name, size, etag, when in zip(names, sizes, etags, written, strict=False)  # keys may have been cut off
        ]
        yield page
        if not reply["IsTruncated"]:
            return
        token = _further(bucket, reply, prefix, token)


def folders(bucket: S3Bucket, prefix: str) -> Sequence[str] | None:
    """Return the folders directly below a prefix, relative to the vault; None where it is better listed as a whole.

    That is where they take over ten pages to find, or are named with characters that stores encode: a folder whose
    name was read wrongly would be listed as an empty one, and nobody would know.

    Raises:
        VaultFault: as ``pages``.
    """
    found: list[str] = []
    token, under = "", bucket.full(prefix)
    for _ in range(FOLDER_PAGES):
        reply = _page(bucket, under, token, loose=True)
        if reply.get("EncodedFolders"):
            return None
        for folder in reply.get("CommonPrefixes", ()):
            name = folder["Prefix"]
            if not (name.startswith(under) and name.endswith("/") and name.count("/", len(under)) == 1):
                raise bucket.fault("BAD_REPLY", f"{name!r} was listed as a folder directly below {under!r}")
            found.append(bucket.own(name))
        if not (_rise("", found) or _rise("", [name.replace("/", "\0") for name in found])):
            raise bucket.fault("BAD_REPLY", f"the folders of {prefix!r} are in no order, or a page was repeated")
        if not reply["IsTruncated"]:
            return found
        token = _further(bucket, reply, prefix, token)
    return None


def _further(bucket: S3Bucket, reply: "ListObjectsV2OutputTypeDef", prefix: str, token: str) -> str:
    """Return the token of the next page."""
    if reply.get("NextContinuationToken", "") in ("", token):
        raise bucket.fault("BAD_REPLY", f"the listing of {prefix!r} is truncated without a way to go on")
    return reply["NextContinuationToken"]


def _page(
    bucket: S3Bucket, prefix: str, token: str, *, after: str = "", loose: bool = False
) -> "ListObjectsV2OutputTypeDef":
    where = {"Bucket": bucket.name, "Prefix": prefix} | ({"Delimiter": "/"} if loose else {})
    where |= {"ContinuationToken": token} if token else {"StartAfter": after} if after else {}
    reply = bucket.ask(lambda s3: s3.list_objects_v2(**where, MaxKeys=PAGE_KEYS))  # type: ignore[arg-type]
    entries = reply.get("Contents", ())
    whole = isinstance(entries, Entries) or all("Key" in entry and "Size" in entry for entry in entries)
    if "IsTruncated" not in reply or not whole or len(entries) > PAGE_KEYS:
        raise bucket.fault("BAD_REPLY", f"the listing of {prefix!r} is no ListObjectsV2 page")
    return reply


def _rise(last: str, keys: Sequence[str]) -> bool:
    """Tell whether each key is beyond the one before it."""
    return not keys or (last < keys[0] and all(map(operator.lt, keys, islice(keys, 1, None))))
