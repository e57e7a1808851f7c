"""Take delete markers away, so that the newest version of a key is visible again."""

from collections.abc import Iterator, Sequence

from sexton.kernel.errors import BadInput
from sexton.storage.model import PAGE_KEYS, KeyOutcome, Undeleted
from sexton.storage.policy import check_key, check_listing, inside_other_vault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.conditional import look
from sexton.storage.s3.delete import Target, delete
from sexton.storage.s3.versions import ObjectVersion, of_keys, under

ByKey = dict[str, list[ObjectVersion]]


def undelete(bucket: S3Bucket, prefix: str, keys: Sequence[str], dry_run: bool) -> Iterator[Undeleted]:
    """Remove *all* delete markers above the newest version of each key: a repeated delete leaves several.

    Args:
        bucket: a versioned one.
        prefix: everything under it; or
        keys: just these.
        dry_run: only count. Markers as old as a version to the second are not counted then.

    Raises:
        BadInput: the bucket was never versioned, or a key or the prefix is not acceptable.
    """
    if bucket.versioning() == "":
        raise BadInput(
            f"nothing to undelete in vault {bucket.spec.name}: its bucket {bucket.name} is not versioned, what was "
            "deleted is gone; restore it from a backup"
        )
    if prefix:
        check_listing(prefix)
        for page in under(bucket, prefix):
            yield from _shown(bucket, page, dry_run)
    for start in range(0, len(keys), PAGE_KEYS):
        for key in keys[start : start + PAGE_KEYS]:
            check_key(key)
        yield from _of_keys(bucket, keys[start : start + PAGE_KEYS], dry_run)


def _of_keys(bucket: S3Bucket, keys: Sequence[str], dry_run: bool) -> Iterator[Undeleted]:
    waiting = list(dict.fromkeys(keys))
    while waiting:
        found, waiting = of_keys(bucket, waiting)
        whole = {key: its for one in found if one.whole for key, its in one.versions.items()}
        yield from _shown(bucket, whole, dry_run)
        if unclear := [key for one in found if not one.whole for key in one.keys]:
            reason = f"{unclear[0]}: its versions cannot be listed completely; use --prefix"
            yield Undeleted(looked_at=len(unclear), failed=len(unclear), reason=reason)


def _shown(bucket: S3Bucket, page: ByKey, dry_run: bool) -> Iterator[Undeleted]:
    """Undelete the keys of one page, and look whether they are visible.

    Where a marker is of the same second as the newest version only the store knows which came later, and says so of
    the latest alone: so one may appear under another.
    """
    for key in page:
        if inside_other_vault(key):
            raise bucket.fault("FOREIGN_MARKER", f"{key!r} belongs to another vault inside this one")
    hidden = {key: its for key, its in page.items() if _is_hidden(its)}
    shown = {key: _newest(its) for key, its in hidden.items()}
    failures: dict[str, str] = {}
    markers = 0
    while hidden:
        above = {key: _above(its) for key, its in hidden.items()}
        markers += sum(map(len, above.values()))
        if dry_run:
            break
        failures |= _remove(bucket, [v for its in above.values() for v in its])
        hidden, unclear = _still_hidden(bucket, [key for key in above if key not in failures])
        failures |= {key: f"{key}: it is still hidden, and its versions cannot be listed completely" for key in unclear}
        for key in [key for key, its in hidden.items() if {v.id for v in its} & {v.id for v in above[key]}]:
            failures[key] = f"{key}: the store said that its delete marker went, and still lists it"
            del hidden[key]
    yield Undeleted(
        looked_at=len(page),
        shown=len(shown.keys() - failures.keys()),
        markers=markers,
        bytes=sum(version.bytes for key, version in shown.items() if key not in failures),
        nothing_left=sum(all(v.marker for v in its) for its in page.values() if its),
        failed=len(failures),
        reason=next(iter(failures.values()), ""),
    )


def _is_hidden(versions: Sequence[ObjectVersion]) -> bool:
    return any(v.marker and v.latest for v in versions) and not all(v.marker for v in versions)


def _still_hidden(bucket: S3Bucket, keys: Sequence[str]) -> tuple[ByKey, list[str]]:
    """Return which keys are still hidden: with all their versions, and those whose versions are not sure to be all."""
    hidden: ByKey = {}
    unclear: list[str] = []
    waiting = list(keys)
    while waiting:
        more, waiting = of_keys(bucket, waiting)
        hidden |= {key: its for one in more if one.whole for key, its in one.versions.items() if _is_hidden(its)}
        unclear += [key for one in more if not one.whole for key in one.keys]
    return hidden, [key for key, seen in zip(unclear, look(bucket, unclear), strict=True) if seen.object is None]


def _newest(versions: Sequence[ObjectVersion]) -> ObjectVersion:
    return max((v for v in versions if not v.marker), key=lambda v: v.at)


def _above(versions: Sequence[ObjectVersion]) -> list[ObjectVersion]:
    """Return the markers that are certainly above the newest version."""
    newest = _newest(versions).at
    return [v for v in versions if v.marker and (v.latest or v.at > newest)]


def _remove(bucket: S3Bucket, markers: Sequence[ObjectVersion]) -> dict[str, str]:
    """Remove markers; return key → reason of those that stay."""
    results = delete(bucket, [Target(v.key, v.id) for v in markers])
    done = (KeyOutcome.DELETED, KeyOutcome.ABSENT)
    return {t.key: f"{t.key}: {r.reason}" for t, r in results.items() if r.outcome not in done}
