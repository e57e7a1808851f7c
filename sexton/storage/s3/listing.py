"""List an S3 bucket: the result is complete or a fault, whatever the store's order and page sizes are."""

import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from sexton.storage.model import PAGE_KEYS, ListedObject, VaultPart
from sexton.storage.s3.bucket import S3Bucket

FOLDER_PAGES = 10
"""Pages that are searched for the folders of a folder; one that needs more is listed as it is, or cut by keys."""


class OrderProof:
    """Proves that the keys of a listing rise from page to page, in byte order or in path order.

    A key that steps back means that a page was repeated or out of place, so another page may be missing.
    """

    def __init__(self, *, allow_path_order: bool = True) -> None:
        self._last_key = ""
        self._in_byte_order, self._in_path_order = True, allow_path_order

    def extend(self, keys: Sequence[str]) -> bool:
        """Add the keys of the next page; return whether all keys so far are in one of the orders."""
        self._in_byte_order = self._in_byte_order and _rise(self._last_key, keys)
        self._in_path_order = self._in_path_order and _rise(_path_order(self._last_key), [*map(_path_order, keys)])
        if keys:
            self._last_key = keys[-1]
        return self._in_byte_order or self._in_path_order


def pages(
    bucket: S3Bucket, prefix: str, *, loose: bool = False, after: str = "", until: str = ""
) -> Iterator[list[ListedObject]]:
    """Yield pages of the objects under a prefix relative to the vault's, including Sexton's own files.

    Args:
        bucket: the vault's.
        prefix: empty for the whole vault.
        loose: only objects in no folder below the prefix.
        after: only keys beyond this one; the listing is refused unless the store lists in byte order.
        until: only keys up to this one; as ``after``.

    Raises:
        VaultFault: the store does not answer, or its pages cannot be complete.
    """
    full_prefix = bucket.full(prefix)
    first_key = bucket.full(after) if after else ""
    last_key = bucket.full(until) if until else ""
    order = OrderProof(allow_path_order=not (after or until))
    vault_prefix = len(bucket.prefix)
    token = ""
    while True:
        reply = _page(bucket, full_prefix, token, after=first_key, loose=loose)
        # The vault's own folder placeholder is no object in it.
        objects = [listed for listed in reply["Contents"] if listed[0] != bucket.prefix]
        keys = [listed[0] for listed in objects]
        for key in keys:
            if not key.startswith(full_prefix) or (loose and "/" in key[len(full_prefix) :]):
                raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {full_prefix!r}")
        if not order.extend(keys) or (first_key and keys and keys[0] <= first_key):
            raise bucket.fault("BAD_REPLY", f"a page from {keys[0]!r} on is in no order, or was listed before")
        is_last = not reply["IsTruncated"]
        if last_key and keys and keys[-1] > last_key:
            objects, is_last = objects[: bisect_right(keys, last_key)], True
        yield [ListedObject(key[vault_prefix:], size, etag, written) for key, size, etag, written in objects]
        if is_last:
            return
        token = _next_token(bucket, reply, prefix, token)


def first_key(bucket: S3Bucket, part: VaultPart) -> str | None:
    """Return the first key of a part, relative to the vault; None: it has none.

    Raises:
        VaultFault: as ``pages``.
    """
    full_prefix, after = bucket.full(part.prefix), bucket.full(part.after) if part.after else ""
    objects = _page(bucket, full_prefix, "", after=after, loose=part.loose, most=1)["Contents"]
    return bucket.relative(objects[0][0]) if objects else None


def folders(bucket: S3Bucket, prefix: str) -> Sequence[str] | None:
    """Return the folders directly below a prefix, relative to the vault; None where it is better listed as a whole.

    That is where finding them takes over ten pages, or where their names have characters that stores encode: a folder
    whose name was decoded wrongly would be listed as an empty one, without an error.

    Raises:
        VaultFault: as ``pages``.
    """
    names: list[str] = []
    order, token, full_prefix = OrderProof(), "", bucket.full(prefix)
    for _ in range(FOLDER_PAGES):
        reply = _page(bucket, full_prefix, token, loose=True)
        if reply["EncodedFolders"]:
            return None
        page_names = reply["CommonPrefixes"]
        for name in page_names:
            if not (name.startswith(full_prefix) and name.endswith("/") and name.count("/", len(full_prefix)) == 1):
                raise bucket.fault("BAD_REPLY", f"{name!r} was listed as a folder directly below {full_prefix!r}")
        if not order.extend(page_names):
            raise bucket.fault("BAD_REPLY", f"the folders of {prefix!r} are in no order, or a page was repeated")
        names += [bucket.relative(name) for name in page_names]
        if not reply["IsTruncated"]:
            return names
        token = _next_token(bucket, reply, prefix, token)
    return None


def _next_token(bucket: S3Bucket, reply: dict[str, Any], prefix: str, token: str) -> str:
    """Return the token of the next page; a listing that repeats a token would not end."""
    next_token: str = reply["NextContinuationToken"]
    if next_token in ("", token):
        raise bucket.fault("BAD_REPLY", f"the listing of {prefix!r} is truncated, but has no token for the next page")
    return next_token


def _page(
    bucket: S3Bucket, full_prefix: str, token: str, *, after: str = "", loose: bool = False, most: int = PAGE_KEYS
) -> dict[str, Any]:
    """Return a page in the form of ``listing_page.read``."""
    request = {"Bucket": bucket.name, "Prefix": full_prefix}
    if loose:
        request["Delimiter"] = "/"
    if token:
        request["ContinuationToken"] = token
    elif after:
        request["StartAfter"] = after
    reply: Any = bucket.call_with_retries(lambda s3: s3.list_objects_v2(**request, MaxKeys=most))  # type: ignore[arg-type]
    if "IsTruncated" not in reply or len(reply["Contents"]) > PAGE_KEYS:
        raise bucket.fault("BAD_REPLY", f"the listing of {full_prefix!r} is no ListObjectsV2 page")
    return dict(reply)


def _path_order(key: str) -> str:
    """Return a text that sorts as a key does in path order: a folder's keys before its longer neighbours."""
    return key.replace("/", "\0")


def _rise(last: str, keys: Sequence[str]) -> bool:
    """Tell whether each key is beyond the one before it."""
    return not keys or (last < keys[0] and all(map(operator.lt, keys, islice(keys, 1, None))))
