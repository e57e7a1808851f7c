"""How many marks a range reads, how prefixes are grouped by vault, and the sums that settle a mark."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.model import CHUNK_MARKS, Ref, Settlement
from sexton.recycle.pipeline.adopt import MarkPrefix, neighbours
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.ranges import marks_to_read
from sexton.storage.model import KeyOutcome


def make_mark(**columns: Any) -> Any:
    """Return the row of a mark of keys in vault ``disk``."""
    row = {"kind": "dropped", "id": "t", "vault": "disk", "prefix": None, "bytes": 70}
    return SimpleNamespace(**row | {"first_pass_at": None, "failures": 0, "lacking": None} | columns)


def make_files(
    outcome: KeyOutcome | None,
    files: int = 1,
    size: int = 0,
    *,
    vault: str = "disk",
    reason: str | None = None,
) -> Any:
    """Return the sums over a mark's files of one outcome."""
    return SimpleNamespace(vault=vault, outcome=outcome, files=files, bytes=size, reason=reason)


def test_bytes_that_are_hidden_are_not_freed() -> None:
    progress = DeletionProgress.of(
        make_mark(), [make_files(KeyOutcome.DELETED, 2, 20), make_files(KeyOutcome.HIDDEN, 1, 5)]
    )

    assert (progress.objects, progress.bytes) == (3, 20)


def test_failures_are_counted_by_vault() -> None:
    files = [make_files(KeyOutcome.DELETED, 3, 30), make_files(KeyOutcome.FAILED, 2, reason="AccessDenied")]

    progress = DeletionProgress.of(make_mark(), files)

    assert (progress.settlement, progress.reason) == (Settlement.FAILED, "AccessDenied")
    assert progress.failed == {"disk": 2}


def test_a_changed_object_gives_the_reason_before_a_failure() -> None:
    files = [make_files(KeyOutcome.FAILED, reason="AccessDenied"), make_files(KeyOutcome.CHANGED, reason="other ETag")]

    progress = DeletionProgress.of(make_mark(), files)

    assert (progress.settlement, progress.reason) == (Settlement.CHANGED, "other ETag")


def test_a_mark_of_several_vaults_is_counted_under_a_star() -> None:
    assert DeletionProgress.of(make_mark(vault=None), []).vault == "*"


OUTCOMES = st.none() | st.sampled_from([outcome for outcome in KeyOutcome if outcome is not KeyOutcome.THROTTLED])
FILES = st.builds(make_files, OUTCOMES, st.integers(1, 3), st.integers(0, 9), vault=st.sampled_from(("disk", "cold")))


@given(st.lists(FILES, max_size=5), st.none() | st.just("data/"), st.none() | st.just(1))
def test_a_record_goes_only_when_each_file_is_gone(
    files: list[Any], prefix: str | None, first_pass_at: int | None
) -> None:
    progress = DeletionProgress.of(make_mark(prefix=prefix, first_pass_at=first_pass_at), files)

    gone = {KeyOutcome.DELETED, KeyOutcome.ABSENT, KeyOutcome.HIDDEN}
    finished = progress.settlement in (Settlement.GONE, Settlement.SECOND_PASS)
    assert progress.ref == Ref("dropped", "t")
    assert finished == all(row.outcome in gone for row in files)
    if progress.settlement is Settlement.GONE:
        assert progress.failed == {}


@pytest.mark.parametrize(
    ("limit", "read", "seen", "next_limit"),
    [
        (CHUNK_MARKS, CHUNK_MARKS, CHUNK_MARKS, CHUNK_MARKS),
        (CHUNK_MARKS, CHUNK_MARKS, 50, 63),
        (63, 63, 50, 63),
        (63, 63, 63, 126),
        (600, 600, 600, CHUNK_MARKS),
        (CHUNK_MARKS, 3, 1, 2),
        (2, 2, 1, 2),
        (1, 1, 1, 2),
        (CHUNK_MARKS, CHUNK_MARKS, 0, 1),
    ],
)
def test_a_chunk_reads_about_as_many_marks_as_it_can_claim(limit: int, read: int, seen: int, next_limit: int) -> None:
    assert marks_to_read(limit, read, seen) == next_limit


def prefixes(vault: str, number: int) -> list[MarkPrefix]:
    return [MarkPrefix(vault, f"t{n:02}/", Ref("dropped", str(n))) for n in range(number)]


@pytest.mark.parametrize(
    ("number", "groups", "sizes"),
    [(0, 4, []), (1, 4, [1]), (4, 4, [1, 1, 1, 1]), (5, 4, [2, 2, 1]), (40, 4, [10, 10, 10, 10])],
)
def test_neighbours_stand_together_in_few_groups(number: int, groups: int, sizes: list[int]) -> None:
    divided = neighbours(prefixes("disk", number), groups)

    assert [len(group) for group in divided] == sizes
    assert [prefix for group in divided for prefix in group] == prefixes("disk", number)


def test_a_group_has_prefixes_of_one_vault() -> None:
    divided = neighbours([*prefixes("cold", 3), *prefixes("disk", 2)], 2)

    assert [[prefix.vault for prefix in group] for group in divided] == [["cold"] * 2, ["cold"], ["disk"], ["disk"]]
