"""Delete conditionally: an object is deleted only while it has the ETag that was resolved, or was not written again."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from sexton.storage.model import KeyOutcome, KeyResult, ListedObject
from sexton.storage.policy import is_rewritten, out_of_time, rewritten_text
from sexton.storage.port import Throttled
from sexton.storage.s3.bucket import S3Bucket, run_together, throttled
from sexton.storage.s3.delete import Target, delete, with_deleted_as
from sexton.storage.s3.wire import error_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NO_ETAG = "no ETag known: a conditional vault needs it; not deleted"


class HeadResult(NamedTuple):
    """The answer of HEAD for a key: the object, or None; and whether a delete marker hides it."""

    object: ListedObject | None
    hidden: bool = False


class Seen(NamedTuple):
    """An object as it was seen; ``etag``, ``written``: empty if they are not known."""

    key: str
    etag: str
    written: str


def delete_conditionally(
    bucket: S3Bucket, etags: Mapping[str, str], deleted: KeyOutcome, until: float
) -> dict[str, KeyResult]:
    """Delete each key while it has its ETag.

    Sends requests of many keys where the probe showed that the store respects an ETag per key; otherwise one by one.

    Args:
        bucket: of the vault.
        etags: key → ETag without quotes; empty where it is unknown, and then the object is not deleted.
        deleted: the outcome of a delete in this bucket: DELETED, or HIDDEN in a versioned bucket.
        until: no request begins after this instant, in monotonic seconds.
    """
    probe = bucket.spec.probe
    targets = [Target(key, etag=etag) for key, etag in etags.items() if etag]
    replies = with_deleted_as(deleted, delete(bucket, targets, until, alone=not (probe and probe.etag_multi)))
    results = {
        key: KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=NO_ETAG) for key, etag in etags.items() if not etag
    }
    unclear = [t for t, reply in replies.items() if reply.outcome in (KeyOutcome.CHANGED, KeyOutcome.ABSENT)]
    results |= {t.key: reply for t, reply in replies.items() if t not in unclear}
    explained = run_together(lambda target: _explain(bucket, target, replies[target]), unclear, until)
    for target, result in zip(unclear, explained, strict=True):
        results[target.key] = result or out_of_time(target.key)
    return results


def delete_unchanged(
    bucket: S3Bucket, objects: Sequence[Seen], delete_one: Callable[[Seen], KeyResult], until: float
) -> list[KeyResult]:
    """Look up each object just before it is deleted, and delete it if it is the one that was seen.

    ``If-Match`` compares the content alone: no request deletes by the time of the last write (only directory buckets of
    AWS know such a condition).

    Args:
        bucket: of the vault.
        objects: what was seen; one without a last write is not looked up.
        delete_one: deletes one of them.
        until: no request begins after this instant, in monotonic seconds.
    """

    def compare_and_delete(seen: Seen) -> KeyResult:
        if seen.written:
            try:
                current = head(bucket, seen.key)
            except Throttled as busy:
                return throttled(seen.key, busy)
            if current.object is None:
                return KeyResult(seen.key, KeyOutcome.HIDDEN if current.hidden else KeyOutcome.ABSENT)
            if change := _change(current.object, seen):
                return KeyResult(seen.key, KeyOutcome.CHANGED, change)
        return delete_one(seen)

    results = run_together(compare_and_delete, objects, until)
    return [result or out_of_time(seen.key) for result, seen in zip(results, objects, strict=True)]


def _change(current: ListedObject, seen: Seen) -> str:
    """Return how an object differs from the one that was seen; empty: it does not."""
    if seen.etag and current.etag != seen.etag:
        return f"rewritten since a check saw it: its ETag was {seen.etag} and is {current.etag}"
    if is_rewritten(current.written, seen.written):
        return rewritten_text(current.written, seen.written)
    return ""


def head_all(bucket: S3Bucket, keys: Sequence[str]) -> list[HeadResult]:
    """Send HEAD for each key, some at once; return the answers in the order of the keys."""
    answers = run_together(lambda key: head(bucket, key), keys)
    return [answer for answer in answers if answer is not None]


def head(bucket: S3Bucket, key: str) -> HeadResult:
    """Send HEAD for one key. The answer for a missing bucket is the same as for a missing key."""

    def request(s3: "S3Client") -> HeadResult:
        try:
            reply = s3.head_object(Bucket=bucket.name, Key=bucket.full(key))
        except ClientError as error:
            if error_of(error)[2] != 404:
                raise
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            return HeadResult(None, headers.get("x-amz-delete-marker") == "true")
        etag, written = reply["ETag"].strip('"'), f"{reply['LastModified']:%Y-%m-%dT%H:%M:%S}"
        return HeadResult(ListedObject(key, reply["ContentLength"], etag, written))

    return bucket.call_with_retries(request)


def _explain(bucket: S3Bucket, target: Target, refusal: KeyResult) -> KeyResult:
    """Return the result that a failed precondition means: stores report it for another object, and some for none."""
    try:
        current = head(bucket, target.key)
    except Throttled as busy:
        return throttled(target.key, busy)
    if current.object is None:
        return KeyResult(key=target.key, outcome=KeyOutcome.HIDDEN if current.hidden else KeyOutcome.ABSENT)
    if current.object.etag == target.etag:
        return KeyResult(
            key=target.key,
            outcome=KeyOutcome.FAILED,
            reason=f"{refusal.reason}, although its ETag is the resolved one; try: sexton vault probe",
        )
    return KeyResult(
        key=target.key,
        outcome=KeyOutcome.CHANGED,
        reason=f"rewritten since it was resolved: its ETag was {target.etag} and is {current.object.etag}",
    )
