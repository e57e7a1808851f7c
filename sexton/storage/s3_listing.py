"""Listings of an S3 bucket: complete or a fault, whatever the store's order and page sizes are."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.storage.model import PAGE_KEYS, Listed
from sexton.storage.s3_bucket import S3Bucket

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef


def pages(bucket: S3Bucket, prefix: str) -> Iterator[list[Listed]]:
    """Yield pages of the objects under a prefix relative to the vault's; Sexton's own ones as well.

    Raises:
        VaultFault: the store does not answer, or its pages cannot be all that there is.
    """
    last, token = "", ""
    by_bytes = by_path = True
    while True:
        reply = _page(bucket, bucket.full(prefix), token)
        page = [
            Listed(key=bucket.own(entry["Key"]), bytes=entry["Size"], etag=entry.get("ETag", "").strip('"'))
            for entry in reply.get("Contents", ())
            if _is_under(bucket, entry["Key"], prefix)
        ]
        for listed in page:
            # A key that steps back means a page repeated or out of place, hence perhaps another one left out.
            by_bytes = by_bytes and last < listed.key
            by_path = by_path and last.replace("/", "\0") < listed.key.replace("/", "\0")
            if last and not (by_bytes or by_path):
                raise bucket.fault("BAD_REPLY", f"{listed.key!r} was listed after {last!r}")
            last = listed.key
        yield page
        if not reply["IsTruncated"]:
            return
        if reply.get("NextContinuationToken", "") in ("", token):
            raise bucket.fault("BAD_REPLY", f"the listing of {prefix!r} is truncated without a way to go on")
        token = reply["NextContinuationToken"]


def _page(bucket: S3Bucket, prefix: str, token: str) -> "ListObjectsV2OutputTypeDef":
    where = {"Bucket": bucket.name, "Prefix": prefix} | ({"ContinuationToken": token} if token else {})
    reply = bucket.ask(lambda s3: s3.list_objects_v2(**where, MaxKeys=PAGE_KEYS))  # type: ignore[arg-type]
    entries = reply.get("Contents", ())
    whole = all("Key" in entry and "Size" in entry for entry in entries)
    if "IsTruncated" not in reply or not whole or len(entries) > PAGE_KEYS:
        raise bucket.fault("BAD_REPLY", f"the listing of {prefix!r} is no ListObjectsV2 page")
    return reply


def _is_under(bucket: S3Bucket, key: str, prefix: str) -> bool:
    if not key.startswith(bucket.full(prefix)):
        raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {bucket.full(prefix)!r}")
    return key != bucket.prefix  # the folder placeholder of the vault itself is no object in it
