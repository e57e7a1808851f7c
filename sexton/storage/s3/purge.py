"""Purge keys of a versioned bucket: every version and delete marker of exactly that key, by version id."""

import time
from collections.abc import Sequence

from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3.bucket import PAGE_SECONDS, S3Bucket, later, throttled
from sexton.storage.s3.delete import Results, Target, delete
from sexton.storage.s3.versions import ObjectVersion, of_keys

UNCLEAR = (
    "this store's listing does not show for certain whether all of its versions are gone: an odd name, or more than "
    "1,000 neighbours whose names begin with it"
)
STAYS = "the store said of version {} that it was deleted, and still lists it"
Failures = dict[str, KeyResult]


def purge(bucket: S3Bucket, keys: Sequence[str]) -> dict[str, KeyResult]:
    """Delete all that there is under each key.

    DELETED, with the bytes of its versions, is said of a key when a complete listing no longer shows any; ABSENT when
    the first one shows none.

    Raises:
        VaultFault: the store does not answer, or not readably.
    """
    results: dict[str, KeyResult] = {}
    removed: dict[str, dict[str, int]] = {}
    waiting, until = list(keys), time.monotonic() + PAGE_SECONDS
    while waiting:
        if time.monotonic() > until:
            return results | {key: later(key) for key in waiting}
        try:
            found, late = of_keys(bucket, waiting)
        except Throttled as busy:
            return results | {key: throttled(key, busy) for key in waiting}
        results |= {key: later(key) for key in late}
        going = []
        for one in found:
            for key, its in one.versions.items():
                if verdict := _verdict(key, its, one.whole, removed.get(key, {})):
                    results[key] = verdict
                else:
                    going += its
        failures = _remove(bucket, going, until)
        results |= failures
        waiting = list(dict.fromkeys(v.key for v in going if v.key not in failures))
        for version in going:
            removed.setdefault(version.key, {})[version.id] = version.bytes
    return results


def _verdict(key: str, listed: Sequence[ObjectVersion], whole: bool, removed: dict[str, int]) -> KeyResult | None:
    """Say what became of a key, by what is listed now and what was removed before; None while there is more to do."""
    stays = [v for v in listed if v.id in removed]
    gone = KeyResult(key=key, outcome=KeyOutcome.DELETED, bytes=sum(removed.values()))
    if [v for v in stays if not v.marker]:
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=STAYS.format(stays[0].id))
    if stays and len(stays) == len(listed) and whole:
        # SeaweedFS keeps the marker of a bucket whose versioning is suspended; it holds no byte and hides nothing.
        return gone._replace(reason=STAYS.format(stays[0].id))
    if listed:
        return None
    if not whole:
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=UNCLEAR)
    return gone if removed else KeyResult(key=key, outcome=KeyOutcome.ABSENT)


def _remove(bucket: S3Bucket, versions: Sequence[ObjectVersion], until: float) -> Failures:
    """Delete versions, then the markers of keys whose versions all went: what is refused stays as hidden as it was."""
    failures = _failed(bucket, _in_time(bucket, [Target(v.key, v.id) for v in versions if not v.marker], until))
    markers = [Target(v.key, v.id) for v in versions if v.marker and v.key not in failures]
    return failures | _failed(bucket, _in_time(bucket, markers, until))


def _in_time(bucket: S3Bucket, targets: Sequence[Target], until: float) -> Results:
    """Delete, request after request; what there is no time for is left for later: a thousand keys may be a million."""
    results: Results = {}
    for start in range(0, len(targets), PAGE_KEYS):
        if start and time.monotonic() > until:
            return results | {t: later(t.key) for t in targets[start:]}
        results |= delete(bucket, targets[start : start + PAGE_KEYS])
    return results


def _failed(bucket: S3Bucket, results: Results) -> Failures:
    failures: Failures = {}
    for target, result in results.items():
        if result.outcome in (KeyOutcome.DELETED, KeyOutcome.ABSENT):
            continue
        worse = failures.get(target.key)
        if worse is None or worse.outcome is KeyOutcome.THROTTLED:
            failures[target.key] = _named(bucket, target, result)
    return failures


def _named(bucket: S3Bucket, target: Target, refused: KeyResult) -> KeyResult:
    """Name the lock that refused a version, where the store's refusal does not."""
    if not refused.reason.startswith("AccessDenied"):
        return refused
    full = bucket.full(target.key)
    try:
        found = bucket.call(lambda s3: s3.head_object(Bucket=bucket.name, Key=full, VersionId=target.version))
    except VaultFault:
        return refused  # the refusal stands, only its cause stays unnamed
    if found.get("ObjectLockLegalHoldStatus") == "ON":
        lock = "a legal hold"
    elif found.get("ObjectLockMode"):
        lock = f"{found['ObjectLockMode']} retention until {found['ObjectLockRetainUntilDate']:%Y-%m-%d %H:%M} UTC"
    else:
        return refused
    return refused._replace(reason=f"LOCKED: {lock} keeps version {target.version} ({refused.reason})")
