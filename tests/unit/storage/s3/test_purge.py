"""A purged key counts as deleted only when a full listing shows no version."""

import datetime as dt

from sexton.storage.model import KeyOutcome
from sexton.storage.s3.purge import ObjectVersion, _verdict

AT = dt.datetime(2024, 10, 4, tzinfo=dt.UTC)
OBJECT = ObjectVersion("a", "v1", 7, marker=False, latest=False, at=AT)
MARKER = ObjectVersion("a", "m1", 0, marker=True, latest=True, at=AT)


VERDICTS: dict[str, tuple[list[ObjectVersion], bool, dict[str, int], KeyOutcome | None]] = {
    "none": ([], True, {}, KeyOutcome.ABSENT),
    "all deleted": ([], True, {"v1": 7}, KeyOutcome.DELETED),
    "an incomplete listing": ([], False, {"v1": 7}, KeyOutcome.FAILED),
    "versions to delete": ([OBJECT, MARKER], True, {}, None),
    "a new version": ([OBJECT], True, {"v0": 5}, None),
    "a version that is still listed": ([OBJECT], True, {"v1": 7}, KeyOutcome.FAILED),
    "a marker that is still listed": ([MARKER], True, {"v1": 7, "m1": 0}, KeyOutcome.DELETED),
    "a marker in an incomplete listing": ([MARKER], False, {"v1": 7, "m1": 0}, None),
}
"""What is listed, whether the listing is complete, the bytes of each removed version, the outcome."""


def test_key_is_deleted_when_a_full_listing_shows_no_version() -> None:
    for name, (listed, complete, removed, outcome) in VERDICTS.items():
        verdict = _verdict("a", listed, complete, removed)
        assert (verdict and verdict.outcome) == outcome, name

    verdict = _verdict("a", [], True, {"v1": 7, "v2": 3, "m1": 0})
    assert verdict is not None
    assert verdict.bytes == 10  # of all removed versions
