"""Delete objects or versions of an S3 bucket; the result of each is exactly what the store reported for it.

Or conditionally: an object is deleted only while it has the ETag that was resolved, or was not written again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult, ListedObject
from sexton.storage.policy import is_rewritten, out_of_time, rewritten_text
from sexton.storage.port import Throttled
from sexton.storage.s3.bucket import S3Bucket, run_together, throttled
from sexton.storage.s3.wire import error_of, fits_xml, is_about_request, is_busy, is_lock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteObjectsOutputTypeDef, ObjectIdentifierTypeDef


class Target(NamedTuple):
    """The thing to delete: a key, one version of it, or the object under it that has this ETag."""

    key: str
    version: str = ""
    etag: str = ""


class Seen(NamedTuple):
    """An object as it was seen; ``etag``, ``written``: empty if they are not known."""

    key: str
    etag: str
    written: str


Results = dict[Target, KeyResult]
NO_ETAG = "no ETag known: a conditional vault needs it; not deleted"
NO_LIMIT = float("inf")


def delete(bucket: S3Bucket, targets: Sequence[Target], until: float = NO_LIMIT, *, alone: bool = False) -> Results:
    """Delete targets, 1,000 in a request. DELETED means that the store accepted it, whatever that means in its bucket.

    Args:
        bucket: of the vault.
        targets: all different.
        until: no request begins after this instant, in monotonic seconds; what is left then is THROTTLED.
        alone: send one request per target, where the store does not respect an ETag per key of a request.
    """
    together = [] if alone else [target for target in targets if fits_xml(target.key)]
    results: Results = {}
    for start in range(0, len(together), PAGE_KEYS):
        if time.monotonic() > until:
            results |= {target: out_of_time(target.key) for target in together[start:]}
            break
        results |= _delete_together(bucket, together[start : start + PAGE_KEYS])
    # A key that XML cannot express (a control character, U+FFFF) is part of a URL instead; so is each of a store that
    # has no request for several.
    left = [target for target in targets if target not in results]
    replies = run_together(lambda target: _delete_alone(bucket, target), left, until)
    return results | {t: reply or out_of_time(t.key) for t, reply in zip(left, replies, strict=True)}


def with_deleted_as(deleted: KeyOutcome, results: Results) -> Results:
    """Return the results with another outcome instead of DELETED: HIDDEN in a versioned bucket."""
    if deleted is KeyOutcome.DELETED:
        return results
    return {t: r._replace(outcome=deleted) if r.outcome is KeyOutcome.DELETED else r for t, r in results.items()}


def _delete_together(bucket: S3Bucket, targets: Sequence[Target]) -> Results:
    """Delete targets in one request; return no result where the store has no such request."""
    objects = [_identifier(bucket, target) for target in targets]

    def request(s3: "S3Client") -> "DeleteObjectsOutputTypeDef | None":
        try:
            return s3.delete_objects(Bucket=bucket.name, Delete={"Objects": objects, "Quiet": True})
        except ClientError as error:
            if _is_missing(error):
                return None
            raise

    try:
        reply = bucket.call(request)
    except Throttled as busy:
        return {target: throttled(target.key, busy) for target in targets}
    if reply is None:
        return {}
    results = {target: KeyResult(target.key, KeyOutcome.DELETED) for target in targets}
    targets_of_key: dict[str, list[Target]] = {}
    for target in targets:
        targets_of_key.setdefault(bucket.full(target.key), []).append(target)
    for error in reply.get("Errors", ()):
        of_key = targets_of_key.get(error.get("Key", ""), [])
        if not of_key:
            raise bucket.fault("BAD_REPLY", f"an error for a key that was not in the request: {error}")
        blamed = [target for target in of_key if target.version == error.get("VersionId", "")] or of_key
        code, message = error.get("Code", ""), error.get("Message", "")
        results |= {target: _refused(bucket, target, code, message) for target in blamed}
    # A store that ignores Quiet names what it deleted; then silence about a key does not mean that it was deleted.
    if deleted := reply.get("Deleted", ()):
        _check_all_named(bucket, deleted, results, targets_of_key)
    return results


def _check_all_named(
    bucket: S3Bucket,
    deleted: Sequence[Mapping[str, Any]],
    results: Results,
    targets_of_key: Mapping[str, Sequence[Target]],
) -> None:
    """Refuse a reply that names deleted objects, but not all that would count as deleted, or others."""
    versions = {(d.get("Key", ""), d.get("VersionId") or d.get("DeleteMarkerVersionId", "")) for d in deleted}
    keys = {key for key, _ in versions}
    for target, result in results.items():
        full_key = bucket.full(target.key)
        is_named = (full_key, target.version) in versions if target.version else full_key in keys
        if result.outcome is KeyOutcome.DELETED and not is_named:
            raise bucket.fault("BAD_REPLY", f"the reply names {len(versions)} objects, but not {full_key!r}")
    if not keys <= targets_of_key.keys():
        unknown = keys - targets_of_key.keys()
        raise bucket.fault("BAD_REPLY", f"the reply names keys that were not in the request: {unknown}")


def _identifier(bucket: S3Bucket, target: Target) -> "ObjectIdentifierTypeDef":
    identifier: ObjectIdentifierTypeDef = {"Key": bucket.full(target.key)}
    if target.version:
        identifier["VersionId"] = target.version
    if target.etag:
        identifier["ETag"] = f'"{target.etag}"'
    return identifier


def _delete_alone(bucket: S3Bucket, target: Target) -> KeyResult:
    condition = {}
    if target.version:
        condition["VersionId"] = target.version
    if target.etag:
        condition["IfMatch"] = f'"{target.etag}"'

    def request(s3: "S3Client") -> KeyResult:
        try:
            s3.delete_object(Bucket=bucket.name, Key=bucket.full(target.key), **condition)  # type: ignore[arg-type]
        except ClientError as error:
            if is_about_request(error) or (not condition and _is_missing(error)):
                raise
            code, message, _ = error_of(error)
            return _refused(bucket, target, code, message)
        return KeyResult(key=target.key, outcome=KeyOutcome.DELETED)

    try:
        return bucket.call(request)
    except Throttled as busy:
        return throttled(target.key, busy)


def _is_missing(error: ClientError) -> bool:
    """Return whether a store answers that it has no such request."""
    code, _, status = error_of(error)
    return code in ("NotImplemented", "MethodNotAllowed") or status in (405, 501)


def _refused(bucket: S3Bucket, target: Target, code: str, message: str) -> KeyResult:
    """Return the result of a target that the store refused with an error code."""
    reason = f"{code}: {message}"
    outcome = KeyOutcome.FAILED
    if code == "NoSuchBucket":
        raise bucket.fault("NO_BUCKET", reason)
    if code in ("NoSuchKey", "NotFound") or (target.version and code == "NoSuchVersion"):
        outcome = KeyOutcome.ABSENT
    elif is_busy(code):
        outcome = KeyOutcome.THROTTLED
    elif target.etag and code in ("PreconditionFailed", "412"):
        outcome = KeyOutcome.CHANGED
    elif is_lock(code, message):
        reason = f"LOCKED: {reason}"
    return KeyResult(key=target.key, outcome=outcome, reason=reason, alone=code == "InternalError")


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
        if not seen.written:
            return delete_one(seen)
        current = _current(bucket, seen.key)
        if isinstance(current, KeyResult):
            return current
        if seen.etag and current.etag != seen.etag:
            change = f"rewritten since a check saw it: its ETag was {seen.etag} and is {current.etag}"
            return KeyResult(seen.key, KeyOutcome.CHANGED, change)
        if is_rewritten(current.written, seen.written):
            return KeyResult(seen.key, KeyOutcome.CHANGED, rewritten_text(current.written, seen.written))
        return delete_one(seen)

    results = run_together(compare_and_delete, objects, until)
    return [result or out_of_time(seen.key) for result, seen in zip(results, objects, strict=True)]


def head_all(bucket: S3Bucket, keys: Sequence[str]) -> list[ListedObject | None]:
    """Send HEAD for each key, some at once; return the objects in the order of the keys, None where there is none."""
    answers = run_together(lambda key: _head(bucket, key), keys)
    return [answer if isinstance(answer, ListedObject) else None for answer in answers]


def _head(bucket: S3Bucket, key: str) -> ListedObject | KeyResult:
    """Send HEAD for one key. The answer for a missing bucket is the same as for a missing key."""

    def request(s3: "S3Client") -> ListedObject | KeyResult:
        try:
            reply = s3.head_object(Bucket=bucket.name, Key=bucket.full(key))
        except ClientError as error:
            if error_of(error)[2] != 404:
                raise
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            is_hidden = headers.get("x-amz-delete-marker") == "true"
            return KeyResult(key, KeyOutcome.HIDDEN if is_hidden else KeyOutcome.ABSENT)
        etag, written = reply["ETag"].strip('"'), f"{reply['LastModified']:%Y-%m-%dT%H:%M:%S}"
        return ListedObject(key, reply["ContentLength"], etag, written)

    return bucket.call_with_retries(request)


def _current(bucket: S3Bucket, key: str) -> ListedObject | KeyResult:
    """Return the object that is to be deleted as it is now; the key's result where it is gone, or the store is busy."""
    try:
        return _head(bucket, key)
    except Throttled as busy:
        return throttled(key, busy)


def _explain(bucket: S3Bucket, target: Target, refusal: KeyResult) -> KeyResult:
    """Return the result that a failed precondition means: stores report it for another object, and some for none."""
    current = _current(bucket, target.key)
    if isinstance(current, KeyResult):
        return current
    if current.etag == target.etag:
        reason = f"{refusal.reason}, although its ETag is the resolved one; try: sexton vault probe"
        return KeyResult(target.key, KeyOutcome.FAILED, reason)
    reason = f"rewritten since it was resolved: its ETag was {target.etag} and is {current.etag}"
    return KeyResult(target.key, KeyOutcome.CHANGED, reason)
