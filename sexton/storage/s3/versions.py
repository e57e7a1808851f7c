"""List versions and delete markers of an S3 bucket, and tell whether the listing is complete.

SeaweedFS omits versions from a listing of more than one page where a key is a folder as well, or has a folder as its
neighbour. So only a reply that is not truncated counts as complete: a truncated one is requested again with half of
the keys, under the longer prefix that these have in common.
"""

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sexton.storage.model import PAGE_SECONDS
from sexton.storage.s3.bucket import S3Bucket, run_together
from sexton.storage.s3.wire import fits_xml

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectVersionsOutputTypeDef

LISTED = 1_000
"""Versions and markers of one reply (S3 API limit)."""

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
    options = {"Delimiter": delimiter, "KeyMarker": after[0], "VersionIdMarker": after[1]}
    extra = {name: value for name, value in options.items() if value}
    reply = bucket.call_with_retries(
        lambda s3: s3.list_object_versions(Bucket=bucket.name, Prefix=full_prefix, MaxKeys=at_most or LISTED, **extra)  # type: ignore[arg-type]
    )
    versions: Sequence[Any] = reply.get("Versions", ())
    markers: Sequence[Any] = reply.get("DeleteMarkers", ())
    folders = [folder.get("Prefix", "") for folder in reply.get("CommonPrefixes", ())]
    has_all_fields = all(entry.keys() >= _FIELDS for entry in (*versions, *markers))
    if "IsTruncated" not in reply or not has_all_fields or not all("Size" in entry for entry in versions):
        raise bucket.fault("BAD_REPLY", f"the versions under {prefix!r} are no ListObjectVersions page")
    for key in (*(entry["Key"] for entry in (*versions, *markers)), *folders):
        if not key.startswith(full_prefix):
            raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {full_prefix!r}")
    return Reply(
        coded=reply.get("EncodingType") == "url",
        versions=[
            *(_version(bucket, entry, entry["Size"]) for entry in versions),
            *(_version(bucket, entry, None) for entry in markers),
        ],
        folders=[bucket.relative(folder) for folder in folders],
        after=_next_page(bucket, prefix, reply, after),
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
        replies = run_together(lambda group: _page_around(bucket, group), current, until)
        for group, reply in zip(current, replies, strict=True):
            if reply is None:
                groups.append(group)
            elif reply.after is not None and len(group) > 1:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
            else:
                results += _versions_in(bucket, group, reply)
    return results, [key for group in groups for key in group]


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


def _page_around(bucket: S3Bucket, group: Sequence[str]) -> Reply:
    """Return the first page under the longest prefix that all keys of a sorted group have in common."""
    if len(group) == 1:  # without the keys below it: below `a` that would be all of `a/…`
        return page(bucket, group[0], "/")
    first, last = group[0], group[-1]
    common = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return page(bucket, first[:common])


def _pages_reliably(bucket: S3Bucket) -> bool:
    """Tell whether the probe showed that listings of versions in several pages are complete."""
    return bucket.spec.probe is not None and bucket.spec.probe.versions_paging is True


def _version(bucket: S3Bucket, entry: Any, size: int | None) -> ObjectVersion:
    """Return a version. ``size``: its bytes; None: a delete marker."""
    key = bucket.relative(entry["Key"])
    return ObjectVersion(key, entry["VersionId"], size or 0, size is None, entry["IsLatest"], entry["LastModified"])


def _next_page(
    bucket: S3Bucket, prefix: str, reply: "ListObjectVersionsOutputTypeDef", before: tuple[str, str]
) -> tuple[str, str] | None:
    """Return where the next page begins, None after the last one."""
    if not reply["IsTruncated"]:
        return None
    after = (reply.get("NextKeyMarker", ""), reply.get("NextVersionIdMarker", ""))
    if not after[0] or after == before:
        raise bucket.fault(
            "BAD_REPLY", f"the versions under {prefix!r} are truncated, but have no marker of the next page"
        )
    return after
