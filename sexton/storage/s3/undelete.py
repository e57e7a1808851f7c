"""Undelete keys of a versioned bucket: remove delete markers, so that the newest version is visible again."""

import time
from collections.abc import Iterator, Sequence

from sexton.kernel.errors import BadInput
from sexton.storage.model import PAGE_KEYS, PAGE_SECONDS, KeyOutcome, Undeleted
from sexton.storage.policy import check_keys, check_listing, inside_other_vault
from sexton.storage.port import BAD_REPLY, UNREACHABLE, Throttled, VaultFault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import head_all
from sexton.storage.s3.purge import NULL, ObjectVersion, delete_versions, versions_of, versions_under

ByKey = dict[str, list[ObjectVersion]]


def undelete(bucket: S3Bucket, prefix: str, keys: Sequence[str], dry_run: bool) -> Iterator[Undeleted]:
    """Remove *all* delete markers above the newest version of each key: repeated deletes leave several.

    Args:
        bucket: a versioned one.
        prefix: all keys under it are undeleted; or
        keys: only these.
        dry_run: only count. A marker of the same second as a version is not counted then.

    Raises:
        BadInput: the bucket was never versioned, or a key or the prefix is not acceptable.
    """
    if bucket.versioning() == "":
        raise BadInput(
            f"nothing to undelete in vault {bucket.spec.name}: its bucket {bucket.name} is not versioned, so deleted "
            "objects are gone; restore them from a backup"
        )
    if prefix:
        check_listing(prefix)
        for page in versions_under(bucket, prefix):
            yield from _undelete_page(bucket, page, dry_run)
    for start in range(0, len(keys), PAGE_KEYS):
        page_keys = list(dict.fromkeys(keys[start : start + PAGE_KEYS]))
        check_keys(page_keys)
        yield from _undelete_keys(bucket, page_keys, dry_run)


def _undelete_keys(bucket: S3Bucket, keys: Sequence[str], dry_run: bool) -> list[Undeleted]:
    """Undelete keys; if the store fails at them but answers otherwise, halve them: one of them may be the reason."""
    pages, waiting = list[Undeleted](), list(keys)
    while waiting:
        try:
            groups, left = versions_of(bucket, waiting, time.monotonic() + PAGE_SECONDS)
            complete = {key: versions for group in groups if group.complete for key, versions in group.versions.items()}
            undeleted = list(_undelete_page(bucket, complete, dry_run))
        except VaultFault as fault:
            if isinstance(fault, Throttled) or fault.reason not in (UNREACHABLE, BAD_REPLY):
                raise
            bucket.require_exists()
            if len(waiting) == 1:
                return [*pages, Undeleted(examined=1, failed=1, reason=f"{waiting[0]}: {fault.detail}")]
            halves = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
            return [*pages, *(page for half in halves for page in _undelete_keys(bucket, half, dry_run))]
        pages += undeleted
        unclear = [key for group in groups if not group.complete for key in group.versions]
        if unclear:
            reason = f"{unclear[0]}: its versions cannot be listed completely; use --prefix"
            pages.append(Undeleted(examined=len(unclear), failed=len(unclear), reason=reason))
        waiting = left
    return pages


def _undelete_page(bucket: S3Bucket, page: ByKey, dry_run: bool) -> Iterator[Undeleted]:
    """Undelete the keys of one page, and check that they are visible.

    Only the store knows the order of a marker and a version of the same second, and it reports the latest one alone.
    So removing a marker may show another one below it.
    """
    for key in page:
        if inside_other_vault(key):
            raise bucket.fault("FOREIGN_MARKER", f"{key!r} belongs to another vault inside this one")
    hidden = {key: versions for key, versions in page.items() if _is_hidden(versions)}
    newest = {key: _newest(versions) for key, versions in hidden.items()}
    failures: dict[str, str] = {}
    removed = 0
    while hidden:
        markers = {key: _markers_above(versions) for key, versions in hidden.items()}
        removed += sum(map(len, markers.values()))
        if dry_run:
            break
        replies = delete_versions(bucket, [v for of_key in markers.values() for v in of_key])
        gone = (KeyOutcome.DELETED, KeyOutcome.ABSENT)
        failures |= {reply.key: f"{reply.key}: {reply.reason}" for reply in replies if reply.outcome not in gone}
        hidden, unclear = _still_hidden(bucket, [key for key in markers if key not in failures])
        failures |= {key: f"{key}: it is still hidden, and its versions cannot be listed completely" for key in unclear}
        for key in [key for key, versions in hidden.items() if {v.id for v in versions} & {v.id for v in markers[key]}]:
            failures[key] = f"{key}: the store reported the delete marker deleted, but still lists it"
            del hidden[key]
    shown = {key: version for key, version in newest.items() if key not in failures}
    yield Undeleted(
        examined=len(page),
        shown=len(shown),
        markers=removed,
        bytes=sum(version.bytes for version in shown.values()),
        nothing_left=sum(all(v.marker for v in versions) for versions in page.values() if versions),
        older=sum(any(v.id == NULL for v in _markers_above(page[key])) for key in shown),
        failed=len(failures),
        reason=next(iter(failures.values()), ""),
    )


def _is_hidden(versions: Sequence[ObjectVersion]) -> bool:
    return any(v.marker and v.latest for v in versions) and not all(v.marker for v in versions)


def _still_hidden(bucket: S3Bucket, keys: Sequence[str]) -> tuple[ByKey, list[str]]:
    """Return the keys that are still hidden: those with all their versions, and those with an incomplete listing."""
    hidden: ByKey = {}
    unclear: list[str] = []
    waiting = list(keys)
    while waiting:
        groups, waiting = versions_of(bucket, waiting, time.monotonic() + PAGE_SECONDS)
        for group in groups:
            if group.complete:
                hidden |= {key: versions for key, versions in group.versions.items() if _is_hidden(versions)}
            else:
                unclear += group.versions
    answers = zip(unclear, head_all(bucket, unclear), strict=True)
    return hidden, [key for key, listed in answers if listed is None]


def _newest(versions: Sequence[ObjectVersion]) -> ObjectVersion:
    return max((v for v in versions if not v.marker), key=lambda v: v.at)


def _markers_above(versions: Sequence[ObjectVersion]) -> list[ObjectVersion]:
    """Return the markers that are certainly above the newest version."""
    newest = _newest(versions).at
    return [v for v in versions if v.marker and (v.latest or v.at > newest)]
