"""Delete objects or versions of an S3 bucket; says of each only what the store said of it."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult
from sexton.storage.port import Throttled
from sexton.storage.s3.bucket import PAGE_SECONDS, S3Bucket, each, later, throttled
from sexton.storage.s3.wire import error_of, fits_xml, is_about_request, is_busy, is_lock

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef


class Target(NamedTuple):
    """What is to go: a key, one version of it, or the object under it that has this ETag."""

    key: str
    version: str = ""
    etag: str = ""


Results = dict[Target, KeyResult]


def delete(bucket: S3Bucket, targets: Sequence[Target], *, alone: bool = False) -> Results:
    """Delete targets, 1,000 in a request; DELETED is said of what the store took, whatever that means in its bucket.

    Args:
        bucket: where.
        targets: no two the same.
        alone: a request for each, where the store does not read an ETag for each key of a request.
    """
    together = [] if alone else [target for target in targets if fits_xml(target.key)]
    results: Results = {}
    for start in range(0, len(together), PAGE_KEYS):
        results |= _together(bucket, together[start : start + PAGE_KEYS])
    # A name that XML cannot express (a control character, U+FFFF) goes into a URL instead.
    return results | _each(bucket, [target for target in targets if target not in results])


def as_gone(results: Results, gone: KeyOutcome) -> Results:
    """Return them with what a taken delete means in the bucket: DELETED, or HIDDEN where it is versioned."""
    if gone is KeyOutcome.DELETED:
        return results
    return {t: r._replace(outcome=gone) if r.outcome is KeyOutcome.DELETED else r for t, r in results.items()}


def _together(bucket: S3Bucket, targets: Sequence[Target]) -> Results:
    objects = [_named(bucket, target) for target in targets]
    try:
        reply = bucket.call(
            lambda s3: s3.delete_objects(Bucket=bucket.name, Delete={"Objects": objects, "Quiet": True})
        )
    except Throttled as busy:
        return {target: throttled(target.key, busy) for target in targets}
    results = {target: KeyResult(target.key, KeyOutcome.DELETED) for target in targets}
    if not (reply.get("Errors") or reply.get("Deleted")):
        return results
    asked: dict[str, list[Target]] = {}
    for target in targets:
        asked.setdefault(bucket.full(target.key), []).append(target)
    for error in reply.get("Errors", ()):
        blamed = asked.get(error.get("Key", ""), [])
        if not blamed:
            raise bucket.fault("BAD_REPLY", f"an error for a key that was not asked for: {error}")
        version = error.get("VersionId", "")
        for target in [t for t in blamed if t.version == version] or blamed:
            results[target] = _refused(bucket, target, error.get("Code", ""), error.get("Message", ""))
    # A store that ignores Quiet names what it deleted; then silence about a key is not consent.
    if done := reply.get("Deleted", ()):
        named = {(d.get("Key", ""), d.get("VersionId") or d.get("DeleteMarkerVersionId", "")) for d in done}
        keys = {key for key, _ in named}
        for target, result in results.items():
            full = bucket.full(target.key)
            told = (full, target.version) in named if target.version else full in keys
            if result.outcome is KeyOutcome.DELETED and not told:
                raise bucket.fault("BAD_REPLY", f"the reply names {len(named)} objects and is silent about {full!r}")
        if not keys <= asked.keys():
            raise bucket.fault("BAD_REPLY", f"the reply names keys that were not asked for: {keys - asked.keys()}")
    return results


def _named(bucket: S3Bucket, target: Target) -> "ObjectIdentifierTypeDef":
    named: ObjectIdentifierTypeDef = {"Key": bucket.full(target.key)}
    if target.version:
        named["VersionId"] = target.version
    if target.etag:
        named["ETag"] = f'"{target.etag}"'
    return named


def _each(bucket: S3Bucket, targets: Sequence[Target]) -> Results:
    done = each(lambda target: _alone(bucket, target), targets, time.monotonic() + PAGE_SECONDS)
    return {target: result or later(target.key) for target, result in zip(targets, done, strict=True)}


def _alone(bucket: S3Bucket, target: Target) -> KeyResult:
    which = ({"VersionId": target.version} if target.version else {}) | (
        {"IfMatch": f'"{target.etag}"'} if target.etag else {}
    )

    def request(s3: "S3Client") -> KeyResult:
        try:
            s3.delete_object(Bucket=bucket.name, Key=bucket.full(target.key), **which)  # type: ignore[arg-type]
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
