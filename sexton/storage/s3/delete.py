"""Delete objects or versions of an S3 bucket; the result of each is exactly what the store reported for it."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult
from sexton.storage.policy import out_of_time
from sexton.storage.port import Throttled
from sexton.storage.s3.bucket import S3Bucket, run_together, throttled
from sexton.storage.s3.wire import error_of, fits_xml, is_about_request, is_busy, is_lock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef


class Target(NamedTuple):
    """The thing to delete: a key, one version of it, or the object under it that has this ETag."""

    key: str
    version: str = ""
    etag: str = ""


Results = dict[Target, KeyResult]
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
    # A key that XML cannot express (a control character, U+FFFF) is part of a URL instead.
    left = [target for target in targets if target not in results]
    replies = run_together(lambda target: _delete_alone(bucket, target), left, until)
    return results | {t: reply or out_of_time(t.key) for t, reply in zip(left, replies, strict=True)}


def with_deleted_as(deleted: KeyOutcome, results: Results) -> Results:
    """Return the results with another outcome instead of DELETED: HIDDEN in a versioned bucket."""
    if deleted is KeyOutcome.DELETED:
        return results
    return {t: r._replace(outcome=deleted) if r.outcome is KeyOutcome.DELETED else r for t, r in results.items()}


def _delete_together(bucket: S3Bucket, targets: Sequence[Target]) -> Results:
    objects = [_identifier(bucket, target) for target in targets]
    try:
        reply = bucket.call(
            lambda s3: s3.delete_objects(Bucket=bucket.name, Delete={"Objects": objects, "Quiet": True})
        )
    except Throttled as busy:
        return {target: throttled(target.key, busy) for target in targets}
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
            if is_about_request(error):
                raise
            code, message, _ = error_of(error)
            return _refused(bucket, target, code, message)
        return KeyResult(key=target.key, outcome=KeyOutcome.DELETED)

    try:
        return bucket.call(request)
    except Throttled as busy:
        return throttled(target.key, busy)


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
