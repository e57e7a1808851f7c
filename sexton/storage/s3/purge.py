"""Purge keys of a versioned bucket: delete every version and delete marker of exactly that key, by version id."""

import time
from collections.abc import Sequence

from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.policy import out_of_time
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3.bucket import S3Bucket, throttled
from sexton.storage.s3.delete import Results, Target, delete
from sexton.storage.s3.versions import ObjectVersion, versions_of

UNCLEAR = (
    "this store's listing does not prove that all of its versions are deleted: the name is odd, or more than 1,000 "
    "neighbours have names that begin with it"
)
STILL_LISTED = "the store reported version {} deleted, but still lists it"


def purge(bucket: S3Bucket, keys: Sequence[str], until: float) -> dict[str, KeyResult]:
    """Delete all versions and delete markers of each key.

    A key is DELETED, with the bytes of its versions, when a complete listing no longer shows any; it is ABSENT when the
    first listing shows none. A thousand keys may have a million versions: no request begins after ``until`` (monotonic
    seconds), and what is left then is THROTTLED.

    Raises:
        VaultFault: the store does not answer, or its answer cannot be read.
    """
    results: dict[str, KeyResult] = {}
    removed: dict[str, dict[str, int]] = {}  # key → version id → bytes, of versions that the store reported deleted
    waiting = list(keys)
    while waiting:
        if time.monotonic() > until:
            return results | {key: out_of_time(key) for key in waiting}
        try:
            groups, unlisted = versions_of(bucket, waiting, until)
        except Throttled as busy:
            return results | {key: throttled(key, busy) for key in waiting}
        results |= {key: out_of_time(key) for key in unlisted}
        doomed: list[ObjectVersion] = []
        for key, versions, complete in ((k, v, group.complete) for group in groups for k, v in group.versions.items()):
            if verdict := _verdict(key, versions, complete, removed.get(key, {})):
                results[key] = verdict
            else:
                doomed += versions
        failures = _remove(bucket, doomed, until)
        results |= failures
        waiting = list(dict.fromkeys(v.key for v in doomed if v.key not in failures))
        for version in doomed:
            removed.setdefault(version.key, {})[version.id] = version.bytes
    return results


def _verdict(key: str, listed: Sequence[ObjectVersion], complete: bool, removed: dict[str, int]) -> KeyResult | None:
    """Return the result of a key, None while versions are left to delete.

    Args:
        key: relative to the vault.
        listed: its versions that are listed now.
        complete: whether the listing shows all of them.
        removed: version id → bytes of those that the store reported deleted before.
    """
    still_listed = [v for v in listed if v.id in removed]
    deleted = KeyResult(key=key, outcome=KeyOutcome.DELETED, bytes=sum(removed.values()))
    if any(not v.marker for v in still_listed):
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=STILL_LISTED.format(still_listed[0].id))
    if still_listed and len(still_listed) == len(listed) and complete:
        # SeaweedFS keeps the marker of a bucket whose versioning is suspended; it has no bytes and hides nothing.
        return deleted._replace(reason=STILL_LISTED.format(still_listed[0].id))
    if listed:
        return None
    if not complete:
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=UNCLEAR)
    return deleted if removed else KeyResult(key=key, outcome=KeyOutcome.ABSENT)


def _remove(bucket: S3Bucket, versions: Sequence[ObjectVersion], until: float) -> dict[str, KeyResult]:
    """Delete versions, then the markers of keys without a refused version: a refused version stays hidden."""
    objects = [Target(v.key, v.id) for v in versions if not v.marker]
    failures = _failures(bucket, delete(bucket, objects, until))
    markers = [Target(v.key, v.id) for v in versions if v.marker and v.key not in failures]
    return failures | _failures(bucket, delete(bucket, markers, until))


def _failures(bucket: S3Bucket, results: Results) -> dict[str, KeyResult]:
    """Return one failure per key with a version that was not deleted; a refusal counts more than throttling."""
    failures: dict[str, KeyResult] = {}
    for target, result in results.items():
        if result.outcome in (KeyOutcome.DELETED, KeyOutcome.ABSENT):
            continue
        earlier = failures.get(target.key)
        if earlier is None or earlier.outcome is KeyOutcome.THROTTLED:
            failures[target.key] = _with_lock(bucket, target, result)
    return failures


def _with_lock(bucket: S3Bucket, target: Target, refusal: KeyResult) -> KeyResult:
    """Add the lock that refused a version to the reason, where the store's refusal does not name it."""
    if not refusal.reason.startswith("AccessDenied"):
        return refusal
    full_key = bucket.full(target.key)
    try:
        version = bucket.call(lambda s3: s3.head_object(Bucket=bucket.name, Key=full_key, VersionId=target.version))
    except VaultFault:
        return refusal  # the refusal stands, without its cause
    if version.get("ObjectLockLegalHoldStatus") == "ON":
        lock = "a legal hold"
    elif version.get("ObjectLockMode"):
        end = version["ObjectLockRetainUntilDate"]
        lock = f"{version['ObjectLockMode']} retention until {end:%Y-%m-%d %H:%M} UTC"
    else:
        return refusal
    return refusal._replace(reason=f"LOCKED: {lock} keeps version {target.version} ({refusal.reason})")
