"""Conditional deletes: an object goes only while it has the ETag that was resolved."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from sexton.storage.model import KeyOutcome, KeyResult, Listed
from sexton.storage.port import Throttled
from sexton.storage.s3.bucket import PAGE_SECONDS, S3Bucket, each, later, throttled
from sexton.storage.s3.delete import Target, as_gone, delete
from sexton.storage.s3.wire import error_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class HeadResult(NamedTuple):
    """What HEAD says of a key: the object, or None; and whether a delete marker hides it."""

    object: Listed | None
    hidden: bool = False


def delete_meant(bucket: S3Bucket, meant: dict[str, str], gone: KeyOutcome) -> dict[str, KeyResult]:
    """Delete each key while it has its ETag.

    In requests of many where the store was seen to read an ETag for each key; else one by one.

    Args:
        bucket: where.
        meant: key → ETag without quotes; empty where it is not known, and then the object stays.
        gone: what a delete does here: DELETED, or HIDDEN in a versioned bucket.
    """
    probe, until = bucket.spec.probe, time.monotonic() + PAGE_SECONDS
    targets = [Target(key, etag=etag) for key, etag in meant.items() if etag]
    tried = as_gone(delete(bucket, targets, alone=not (probe and probe.etag_multi)), gone)
    results = {
        key: KeyResult(
            key=key, outcome=KeyOutcome.FAILED, reason="no ETag known: a conditional vault needs it; not deleted"
        )
        for key, etag in meant.items()
        if not etag
    }
    doubtful = [t for t, r in tried.items() if r.outcome in (KeyOutcome.CHANGED, KeyOutcome.ABSENT)]
    results |= {t.key: r for t, r in tried.items() if t not in doubtful}
    explained = each(lambda target: _explained(bucket, target, tried[target]), doubtful, until)
    return results | {t.key: told or later(t.key) for t, told in zip(doubtful, explained, strict=True)}


def look(bucket: S3Bucket, keys: Sequence[str]) -> list[HeadResult]:
    """HEAD each key, some at once, in the order given."""
    return [seen for seen in each(lambda key: head(bucket, key), keys) if seen is not None]


def head(bucket: S3Bucket, key: str) -> HeadResult:
    """Ask for one key. A missing bucket looks like a missing key here."""

    def request(s3: "S3Client") -> HeadResult:
        try:
            found = s3.head_object(Bucket=bucket.name, Key=bucket.full(key))
        except ClientError as error:
            if error_of(error)[2] != 404:
                raise
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            return HeadResult(None, headers.get("x-amz-delete-marker") == "true")
        etag, written = found["ETag"].strip('"'), f"{found['LastModified']:%Y-%m-%dT%H:%M:%S}"
        return HeadResult(Listed(key, found["ContentLength"], etag, written))

    return bucket.ask(request)


def _explained(bucket: S3Bucket, target: Target, refused: KeyResult) -> KeyResult:
    """Say what a failed precondition means: stores give it for another object, and some for none at all."""
    try:
        seen = head(bucket, target.key)
    except Throttled as busy:
        return throttled(target.key, busy)
    if seen.object is None:
        return KeyResult(key=target.key, outcome=KeyOutcome.HIDDEN if seen.hidden else KeyOutcome.ABSENT)
    if seen.object.etag == target.etag:
        return KeyResult(
            key=target.key,
            outcome=KeyOutcome.FAILED,
            reason=f"{refused.reason}, though its ETag is the one resolved; try: sexton vault probe",
        )
    return KeyResult(
        key=target.key,
        outcome=KeyOutcome.CHANGED,
        reason=f"rewritten since it was resolved: its ETag was {target.etag} and is {seen.object.etag}",
    )
