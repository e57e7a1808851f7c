"""Versions and delete markers of an S3 bucket, listed completely or said not to be.

SeaweedFS leaves versions out of a listing that takes more than one page where a key is a folder as well, or has one
for a neighbour. So what counts as complete is one reply that is not truncated: a truncated one is asked for again with
half of the keys, under the longer prefix that these have in common.
"""

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sexton.storage.s3.bucket import PAGE_SECONDS, S3Bucket, each
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
    """One page; ``after`` is where the next one begins, None where this is the last.

    ``coded``: keys came encoded; else those that XML cannot hold are not shown as they are.
    """

    coded: bool
    versions: Sequence[ObjectVersion]
    folders: Sequence[str]
    after: tuple[str, str] | None


class FoundVersions(NamedTuple):
    """All versions of some keys. Not ``whole``: some may be missing, as the key has too many neighbours or is odd."""

    keys: Sequence[str]
    versions: dict[str, list[ObjectVersion]]
    whole: bool


def page(
    bucket: S3Bucket, prefix: str, delimiter: str = "", after: tuple[str, str] = ("", ""), at_most: int = 0
) -> Reply:
    """Return one page of the versions under a prefix relative to the vault's; of ``at_most`` or ``LISTED``.

    Raises:
        VaultFault: the store does not answer, or not with such a page.
    """
    full = bucket.full(prefix)
    where = {"Delimiter": delimiter, "KeyMarker": after[0], "VersionIdMarker": after[1]}
    given = {name: value for name, value in where.items() if value}
    reply = bucket.ask(
        lambda s3: s3.list_object_versions(Bucket=bucket.name, Prefix=full, MaxKeys=at_most or LISTED, **given)  # type: ignore[arg-type]
    )
    listed: list[tuple[Any, bool]] = [(entry, False) for entry in reply.get("Versions", ())]
    listed += [(entry, True) for entry in reply.get("DeleteMarkers", ())]
    folders = [folder.get("Prefix", "") for folder in reply.get("CommonPrefixes", ())]
    whole = all(entry.keys() >= _FIELDS and (marker or "Size" in entry) for entry, marker in listed)
    if "IsTruncated" not in reply or not whole:
        raise bucket.fault("BAD_REPLY", f"the versions under {prefix!r} are no ListObjectVersions page")
    for key in (*(entry["Key"] for entry, _ in listed), *folders):
        if not key.startswith(full):
            raise bucket.fault("BAD_REPLY", f"{key!r} was listed under {full!r}")
    versions = [
        ObjectVersion(bucket.own(e["Key"]), e["VersionId"], e.get("Size", 0), marker, e["IsLatest"], e["LastModified"])
        for e, marker in listed
    ]
    coded = reply.get("EncodingType") == "url"
    return Reply(coded, versions, [bucket.own(folder) for folder in folders], _onward(bucket, prefix, reply, after))


def of_keys(bucket: S3Bucket, keys: Sequence[str]) -> tuple[list[FoundVersions], list[str]]:
    """Return what exactly these keys have, and the keys that there was no time left for.

    Raises:
        VaultFault: as ``page``.
    """
    found: list[FoundVersions] = []
    groups = [sorted(keys)] if keys else []
    until = time.monotonic() + PAGE_SECONDS / 2  # the other half is for deleting
    while groups and time.monotonic() < until:
        asked, groups = groups, []
        for group, reply in zip(asked, each(lambda group: _common(bucket, group), asked, until), strict=True):
            if reply is None:
                groups.append(group)
                continue
            if reply.after is not None and len(group) > 1:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
                continue
            its: dict[str, list[ObjectVersion]] = {key: [] for key in group if reply.coded or fits_xml(key)}
            for version in reply.versions:
                if version.key in its:
                    its[version.key].append(version)
            found.append(FoundVersions(list(its), its, reply.after is None or _is_past(bucket, group[0], reply)))
            found += [FoundVersions([key], {key: []}, whole=False) for key in group if key not in its]
    return found, [key for group in groups for key in group]


def under(bucket: S3Bucket, prefix: str) -> Iterator[dict[str, list[ObjectVersion]]]:
    """Yield all keys under a prefix with all their versions, a page at a time; a key comes once.

    Raises:
        VaultFault: as ``page``.
    """
    first = page(bucket, prefix)
    if first.after is None or _pages_well(bucket):
        yield from _pages(bucket, prefix, "", first, [])
        return
    waiting = [prefix]
    while waiting:  # a folder at a time: within one, a store that keeps a tree leaves nothing out
        folder = waiting.pop()
        yield from _pages(bucket, folder, "/", page(bucket, folder, "/"), waiting)


def _pages(
    bucket: S3Bucket, prefix: str, delimiter: str, reply: Reply, folders: list[str]
) -> Iterator[dict[str, list[ObjectVersion]]]:
    carried: dict[str, list[ObjectVersion]] = {}
    while True:
        for version in reply.versions:
            carried.setdefault(version.key, []).append(version)
        folders += reply.folders
        if reply.after is None:
            yield carried
            return
        last = bucket.own(reply.after[0])  # the next page may have more of this key
        yield {key: versions for key, versions in carried.items() if key != last}
        carried = {key: versions for key, versions in carried.items() if key == last}
        reply = page(bucket, prefix, delimiter, reply.after)


def _common(bucket: S3Bucket, group: Sequence[str]) -> Reply:
    if len(group) == 1:  # without what lies below it, as below `a` all of `a/…`
        return page(bucket, group[0], "/")
    first, last = group[0], group[-1]
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return page(bucket, first[:same])


def _is_past(bucket: S3Bucket, key: str, reply: Reply) -> bool:
    """Tell whether a truncated reply shows all versions of a key: in byte order its own come before all neighbours."""
    return _pages_well(bucket) and (bool(reply.folders) or any(v.key != key for v in reply.versions))


def _pages_well(bucket: S3Bucket) -> bool:
    return bucket.spec.probe is not None and bucket.spec.probe.versions_paging is True


def _onward(
    bucket: S3Bucket, prefix: str, reply: "ListObjectVersionsOutputTypeDef", before: tuple[str, str]
) -> tuple[str, str] | None:
    if not reply["IsTruncated"]:
        return None
    after = (reply.get("NextKeyMarker", ""), reply.get("NextVersionIdMarker", ""))
    if not after[0] or after == before:
        raise bucket.fault("BAD_REPLY", f"the versions under {prefix!r} are truncated without a way to go on")
    return after
