"""Purge keys of a versioned bucket: delete every version and delete marker of exactly that key, by version id.

List versions and delete markers of an S3 bucket, and tell whether the listing is complete.

SeaweedFS omits versions from a listing of more than one page where a key is a folder as well, or has a folder as its
neighbour. So only a reply that is not truncated counts as complete: a truncated one is requested again with half of
the keys, under the longer prefix that these have in common.
"""

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from os.path import commonprefix
from typing import Any, NamedTuple

from sexton.storage.model import PAGE_SECONDS, KeyOutcome, KeyResult
from sexton.storage.policy import out_of_time
from sexton.storage.port import Throttled, VaultFault
from sexton.storage.s3.bucket import S3Bucket, run_together, throttled
from sexton.storage.s3.delete import NO_LIMIT, delete
from sexton.storage.s3.wire import fits_xml

LISTED = 1_000
"""Versions and markers of one reply (S3 API limit)."""
NULL = "null"
"""The id of what is written, or hidden, while versioning is suspended: each write and delete replaces it."""

_FIELDS = {"Key", "VersionId", "IsLatest", "LastModified"}


class ObjectVersion(NamedTuple):
    """One version of a key, or one delete marker (``bytes`` 0); ``at`` is exact to the second in some stores."""

    key: str
    id: str
    bytes: int
    marker: bool
    latest: bool
    at: dt.datetime


class Reply(NamedTuple):
    """One page; ``after`` is where the next page begins, None where this is the last.

    ``coded``: keys came encoded; otherwise keys that XML cannot express are not shown correctly.
    """

    coded: bool
    versions: Sequence[ObjectVersion]
    folders: Sequence[str]
    after: tuple[str, str] | None


class FoundVersions(NamedTuple):
    """The versions of some keys. Not ``complete``: some may be missing, as a key has too many neighbours or is odd."""

    versions: dict[str, list[ObjectVersion]]
    complete: bool


def page(
    bucket: S3Bucket, prefix: str, delimiter: str = "", after: tuple[str, str] = ("", ""), at_most: int = 0
) -> Reply:
    """Return one page of versions.

    Args:
        bucket: of the vault.
        prefix: relative to the vault.
        delimiter: ``/`` for keys and folders directly below the prefix only.
        after: (key, version id) of the last entry of the page before.
        at_most: entries of the page; 0 means ``LISTED``.

    Raises:
        VaultFault: the store does not answer, or the answer is no such page.
    """
    full_prefix = bucket.full(prefix)
    options: Any = {"Delimiter": delimiter, "KeyMarker": after[0], "VersionIdMarker": after[1], "Prefix": full_prefix}
    request = {name: value for name, value in options.items() if value} | {"MaxKeys": at_most or LISTED}
    reply = bucket.call_with_retries(lambda via: via.s3.list_object_versions(Bucket=bucket.name, **request))
    versions: Sequence[Any] = reply.get("Versions", ())
    markers: Sequence[Any] = reply.get("DeleteMarkers", ())
    folders = [folder.get("Prefix", "") for folder in reply.get("CommonPrefixes", ())]
    has_all_fields = all(entry.keys() >= _FIELDS for entry in (*versions, *markers))
    if "IsTruncated" not in reply or not has_all_fields or not all("Size" in entry for entry in versions):
        raise bucket.fault("BAD_REPLY", f"the versions under {prefix!r} are no ListObjectVersions page")
    for key in (*(entry["Key"] for entry in (*versions, *markers)), *folders):
        if not key.startswith(full_prefix):
            raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {full_prefix!r}")
    following = (reply.get("NextKeyMarker", ""), reply.get("NextVersionIdMarker", "")) if reply["IsTruncated"] else None
    if following and (not following[0] or following == after):
        detail = f"the versions under {prefix!r} are truncated, but have no marker of the next page"
        raise bucket.fault("BAD_REPLY", detail)
    return Reply(
        coded=reply.get("EncodingType") == "url",
        versions=[
            *(_version(bucket, entry, entry["Size"]) for entry in versions),
            *(_version(bucket, entry, None) for entry in markers),
        ],
        folders=[bucket.relative(folder) for folder in folders],
        after=following,
    )


def versions_of(bucket: S3Bucket, keys: Sequence[str], page_until: float) -> tuple[list[FoundVersions], list[str]]:
    """Return the versions of exactly these keys, and the keys for which there was no time left.

    ``page_until``: when the page must have sent its last request, in monotonic seconds. A listing takes half of a
    page's time at most: the other half is for deleting.

    Raises:
        VaultFault: as ``page``.
    """
    results: list[FoundVersions] = []
    groups: list[list[str]] = [sorted(keys)] if keys else []
    until = min(page_until, time.monotonic() + PAGE_SECONDS / 2)
    while groups and time.monotonic() < until:
        current, groups = groups, []
        # One key alone is listed without the keys below it: below `a` that would be all of `a/…`.
        replies = run_together(
            lambda group: page(bucket, commonprefix(group), "/" if len(group) == 1 else ""),  # noqa: RUF071 - of texts
            current,
            until,
        )
        for group, reply in zip(current, replies, strict=True):
            if reply is None:
                groups.append(group)
            elif reply.after is not None and len(group) > 1:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
            else:
                results += _versions_in(bucket, group, reply)
    return results, [key for group in groups for key in group]


COUNTED_SECONDS = 2.0


def null_bytes(bucket: S3Bucket, keys: Sequence[str], until: float) -> dict[str, int]:
    """Return the bytes of the keys whose current object is the null version: a suspended bucket deletes it for good.

    Of other keys the delete hides a version, or their versions cannot be listed in time. This only counts: it takes
    ``COUNTED_SECONDS`` at most, and keeps nothing from being deleted.
    """
    try:
        groups, _ = versions_of(bucket, keys, min(until, time.monotonic() + COUNTED_SECONDS))
    except VaultFault:
        return {}
    versions = [version for group in groups for of_key in group.versions.values() for version in of_key]
    others = {version.key for version in versions if version.latest and version.id != NULL}
    return {v.key: v.bytes for v in versions if v.id == NULL and not v.marker and v.key not in others}


def versions_under(bucket: S3Bucket, prefix: str) -> Iterator[dict[str, list[ObjectVersion]]]:
    """Yield all keys under a prefix with all their versions, a page at a time; each key comes once.

    Raises:
        VaultFault: as ``page``.
    """
    first = page(bucket, prefix)
    if first.after is None or _pages_reliably(bucket):
        yield from _pages(bucket, prefix, "", first, [])
        return
    waiting = [prefix]
    while waiting:  # a folder at a time: within one folder, a store that has a tree omits nothing
        folder = waiting.pop()
        yield from _pages(bucket, folder, "/", page(bucket, folder, "/"), waiting)


def _versions_in(bucket: S3Bucket, group: Sequence[str], reply: Reply) -> list[FoundVersions]:
    """Return the versions of a group of keys that a reply shows; keys that it cannot show are not complete."""
    versions: dict[str, list[ObjectVersion]] = {key: [] for key in group if reply.coded or fits_xml(key)}
    for version in reply.versions:
        if version.key in versions:
            versions[version.key].append(version)
    # In byte order all versions of a key come before its neighbours, so a truncated reply with one shows all of them.
    is_past = _pages_reliably(bucket) and (bool(reply.folders) or any(v.key != group[0] for v in reply.versions))
    complete = reply.after is None or is_past
    unshown = [FoundVersions({key: []}, complete=False) for key in group if key not in versions]
    return [FoundVersions(versions, complete), *unshown]


def _pages(
    bucket: S3Bucket, prefix: str, delimiter: str, reply: Reply, folders: list[str]
) -> Iterator[dict[str, list[ObjectVersion]]]:
    """Yield the keys of a listing from its first page on; append the folders of its pages to ``folders``."""
    carried: dict[str, list[ObjectVersion]] = {}
    while True:
        for version in reply.versions:
            carried.setdefault(version.key, []).append(version)
        folders += reply.folders
        if reply.after is None:
            yield carried
            return
        last_key = bucket.relative(reply.after[0])  # the next page may have more versions of this key
        yield {key: versions for key, versions in carried.items() if key != last_key}
        carried = {key: versions for key, versions in carried.items() if key == last_key}
        reply = page(bucket, prefix, delimiter, reply.after)


def _pages_reliably(bucket: S3Bucket) -> bool:
    """Tell whether the probe showed that listings of versions in several pages are complete."""
    return bucket.spec.probe is not None and bucket.spec.probe.versions_paging is True


def _version(bucket: S3Bucket, entry: Any, size: int | None) -> ObjectVersion:
    """Return a version. ``size``: its bytes; None: a delete marker."""
    key = bucket.relative(entry["Key"])
    return ObjectVersion(key, entry["VersionId"], size or 0, size is None, entry["IsLatest"], entry["LastModified"])


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
        failures = _failures(bucket, [v for v in doomed if not v.marker], until)
        # Then the markers of keys without a refused version: a refused version stays hidden.
        failures |= _failures(bucket, [v for v in doomed if v.marker and v.key not in failures], until)
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


def delete_versions(bucket: S3Bucket, versions: Sequence[ObjectVersion], until: float = NO_LIMIT) -> list[KeyResult]:
    """Delete versions and delete markers; return their results in the same order."""
    return delete(bucket, [v.key for v in versions], [v.id for v in versions], until=until)


def _failures(bucket: S3Bucket, versions: Sequence[ObjectVersion], until: float) -> dict[str, KeyResult]:
    """Delete versions; return one failure per key with one that was not; a refusal counts more than throttling."""
    failures: dict[str, KeyResult] = {}
    for version, result in zip(versions, delete_versions(bucket, versions, until), strict=True):
        if result.outcome in (KeyOutcome.DELETED, KeyOutcome.ABSENT):
            continue
        earlier = failures.get(version.key)
        if earlier is None or earlier.outcome is KeyOutcome.THROTTLED:
            failures[version.key] = _with_lock(bucket, version, result)
    return failures


def _with_lock(bucket: S3Bucket, locked: ObjectVersion, refusal: KeyResult) -> KeyResult:
    """Add the lock that refused a version to the reason, where the store's refusal does not name it."""
    if not refusal.reason.startswith("AccessDenied"):
        return refusal
    full_key = bucket.full(locked.key)
    try:
        version = bucket.call(lambda via: via.s3.head_object(Bucket=bucket.name, Key=full_key, VersionId=locked.id))
    except VaultFault:
        return refusal  # the refusal stands, without its cause
    if version.get("ObjectLockLegalHoldStatus") == "ON":
        lock = "a legal hold"
    elif version.get("ObjectLockMode"):
        end = version["ObjectLockRetainUntilDate"]
        lock = f"{version['ObjectLockMode']} retention until {end:%Y-%m-%d %H:%M} UTC"
    else:
        return refusal
    return refusal._replace(reason=f"LOCKED: {lock} keeps version {locked.id} ({refusal.reason})")
