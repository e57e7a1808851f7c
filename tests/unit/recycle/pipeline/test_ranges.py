"""How many marks a range reads, how prefixes are grouped by vault, and the sums that settle a mark."""

from types import SimpleNamespace
from typing import Any

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


def progress(*files: Any, **columns: Any) -> DeletionProgress:
    return DeletionProgress.of(make_mark(**columns), files)


def test_outcomes_are_summed_and_give_the_reason() -> None:
    failed = make_files(KeyOutcome.FAILED, 2, reason="AccessDenied")
    hidden = progress(make_files(KeyOutcome.DELETED, 2, 20), make_files(KeyOutcome.HIDDEN, 1, 5))
    denied = progress(make_files(KeyOutcome.DELETED, 3, 30), failed)
    changed = progress(failed, make_files(KeyOutcome.CHANGED, reason="other ETag"))

    assert (hidden.objects, hidden.bytes) == (3, 20)  # hidden bytes are not freed
    assert (denied.settlement, denied.reason, denied.failed) == (Settlement.FAILED, "AccessDenied", {"disk": 2})
    assert (changed.settlement, changed.reason) == (Settlement.CHANGED, "other ETag")
    assert progress(vault=None).vault == "*"  # of several vaults


OUTCOMES = st.none() | st.sampled_from([outcome for outcome in KeyOutcome if outcome is not KeyOutcome.THROTTLED])
FILES = st.builds(make_files, OUTCOMES, st.integers(1, 3), st.integers(0, 9), vault=st.sampled_from(("disk", "cold")))


@given(st.lists(FILES, max_size=5), st.none() | st.just("data/"), st.none() | st.just(1))
def test_a_record_goes_only_when_each_file_is_gone(
    files: list[Any], prefix: str | None, first_pass_at: int | None
) -> None:
    deletion = progress(*files, prefix=prefix, first_pass_at=first_pass_at)

    gone = {KeyOutcome.DELETED, KeyOutcome.ABSENT, KeyOutcome.HIDDEN}
    finished = deletion.settlement in (Settlement.GONE, Settlement.SECOND_PASS)
    assert deletion.ref == Ref("dropped", "t")
    assert finished == all(row.outcome in gone for row in files)
    if deletion.settlement is Settlement.GONE:
        assert deletion.failed == {}


NEXT_LIMITS = {
    (CHUNK_MARKS, CHUNK_MARKS, CHUNK_MARKS): CHUNK_MARKS,
    (CHUNK_MARKS, CHUNK_MARKS, 50): 63,
    (63, 63, 50): 63,
    (63, 63, 63): 126,
    (600, 600, 600): CHUNK_MARKS,
    (CHUNK_MARKS, 3, 1): 2,
    (2, 2, 1): 2,
    (1, 1, 1): 2,
    (CHUNK_MARKS, CHUNK_MARKS, 0): 1,
}
"""Limit, marks read, marks seen → the next limit."""


def test_a_chunk_reads_about_as_many_marks_as_it_can_claim() -> None:
    assert {chunk: marks_to_read(*chunk) for chunk in NEXT_LIMITS} == NEXT_LIMITS


def prefixes(vault: str, number: int) -> list[MarkPrefix]:
    return [MarkPrefix(vault, f"t{n:02}/", Ref("dropped", str(n))) for n in range(number)]


def test_neighbours_stand_together_in_few_groups() -> None:
    for sizes in ([], [1], [1, 1, 1, 1], [2, 2, 1], [10, 10, 10, 10]):
        divided = neighbours(prefixes("disk", sum(sizes)), 4)

        assert [len(group) for group in divided] == sizes
        assert [prefix for group in divided for prefix in group] == prefixes("disk", sum(sizes))


def test_a_group_has_prefixes_of_one_vault() -> None:
    divided = neighbours([*prefixes("cold", 3), *prefixes("disk", 2)], 2)

    assert [[prefix.vault for prefix in group] for group in divided] == [["cold"] * 2, ["cold"], ["disk"], ["disk"]]
