"""A purged key counts as deleted only when a full listing shows no version."""

import datetime as dt

import pytest

from sexton.storage.model import KeyOutcome
from sexton.storage.s3.purge import _verdict
from sexton.storage.s3.versions import ObjectVersion

AT = dt.datetime(2024, 10, 4, tzinfo=dt.UTC)
OBJECT = ObjectVersion("a", "v1", 7, marker=False, latest=False, at=AT)
MARKER = ObjectVersion("a", "m1", 0, marker=True, latest=True, at=AT)


@pytest.mark.parametrize(
    ("listed", "complete", "removed", "outcome"),
    [
        ([], True, {}, KeyOutcome.ABSENT),
        ([], True, {"v1": 7}, KeyOutcome.DELETED),
        ([], False, {"v1": 7}, KeyOutcome.FAILED),
        ([OBJECT, MARKER], True, {}, None),
        ([OBJECT], True, {"v0": 5}, None),
        ([OBJECT], True, {"v1": 7}, KeyOutcome.FAILED),
        ([MARKER], True, {"v1": 7, "m1": 0}, KeyOutcome.DELETED),
        ([MARKER], False, {"v1": 7, "m1": 0}, None),
    ],
    ids=[
        "none",
        "all deleted",
        "an incomplete listing",
        "versions to delete",
        "a new version",
        "a version that is still listed",
        "a marker that is still listed",
        "a marker in an incomplete listing",
    ],
)
def test_key_is_deleted_when_a_full_listing_shows_no_version(
    listed: list[ObjectVersion], complete: bool, removed: dict[str, int], outcome: KeyOutcome | None
) -> None:
    verdict = _verdict("a", listed, complete, removed)

    assert (verdict and verdict.outcome) == outcome


def test_the_bytes_of_all_removed_versions_count() -> None:
    verdict = _verdict("a", [], True, {"v1": 7, "v2": 3, "m1": 0})

    assert verdict is not None
    assert verdict.bytes == 10
