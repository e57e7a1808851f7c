"""Read and write Sexton's own files in a bucket, below the vault's ``_sexton/``; never the marker."""

import time
from collections.abc import Iterator, Sequence

from sexton.storage.model import PAGE_KEYS, PAGE_SECONDS, RESERVED_PREFIX, KeyOutcome, ListedObject
from sexton.storage.policy import check_own, check_own_prefix, is_own
from sexton.storage.s3 import listing
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import Target, delete
from sexton.storage.s3.purge import purge


def write(bucket: S3Bucket, name: str, data: bytes) -> None:
    """Write one file; S3 shows all of it or none."""
    check_own(name)
    full = bucket.full(RESERVED_PREFIX + name)
    bucket.call_with_retries(lambda s3: s3.put_object(Bucket=bucket.name, Key=full, Body=data))


def read(bucket: S3Bucket, name: str) -> bytes | None:
    """Return one file, None where it does not exist."""
    check_own(name)
    return bucket.get(bucket.full(RESERVED_PREFIX + name))


def list_(bucket: S3Bucket, prefix: str) -> Iterator[Sequence[ListedObject]]:
    """Yield pages of the files whose names begin with a prefix."""
    check_own_prefix(prefix)
    return _list(bucket, prefix)


def remove(bucket: S3Bucket, names: Sequence[str]) -> None:
    """Remove files; in a vault that purges versions, all versions of them.

    Raises:
        VaultFault: the store did not remove one.
    """
    for name in names:
        check_own(name)
    keys = [RESERVED_PREFIX + name for name in dict.fromkeys(names)]
    for start in range(0, len(keys), PAGE_KEYS):
        page = keys[start : start + PAGE_KEYS]
        if bucket.spec.versions == "purge" and bucket.versioning() != "":
            results = list(purge(bucket, page, time.monotonic() + PAGE_SECONDS).values())
        else:
            results = list(delete(bucket, [Target(key) for key in page]).values())
        for result in results:
            if result.outcome is KeyOutcome.THROTTLED:
                raise bucket.fault("UNREACHABLE", f"{result.key} was not removed: {result.reason}")
            if result.outcome not in (KeyOutcome.DELETED, KeyOutcome.ABSENT):
                raise bucket.fault("DENIED", f"{result.key} was not removed: {result.reason}")


def _list(bucket: S3Bucket, prefix: str) -> Iterator[Sequence[ListedObject]]:
    for page in listing.pages(bucket, RESERVED_PREFIX + prefix):
        files = [listed._replace(key=listed.key.removeprefix(RESERVED_PREFIX)) for listed in page]
        own_files = [file for file in files if is_own(file.key)]
        if own_files:
            yield own_files
