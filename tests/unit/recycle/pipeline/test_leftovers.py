"""What a take-over does with the files that an older attempt left."""

from types import SimpleNamespace

import pytest

from sexton.marks.file_list import ListedFile
from sexton.marks.model import Ref
from sexton.recycle.pipeline.sql.files import Leftovers, sort_leftovers
from sexton.storage.model import KeyOutcome

MARK = Ref("dropped", "m")
FIRST_PASS = {MARK: SimpleNamespace(first_pass_at=None)}
SECOND_PASS = {MARK: SimpleNamespace(first_pass_at=1_000)}
KEPT = Leftovers([], [], 0)


def sort(outcome: KeyOutcome | None, claimed: dict[Ref, SimpleNamespace], *, second_pass: bool) -> Leftovers:
    file = ListedFile(7, MARK, "disk", "m.dat", None, outcome, "")
    return sort_leftovers([file], claimed, second_pass=second_pass)


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.parametrize("outcome", [None, KeyOutcome.DELETED, KeyOutcome.FAILED])
def test_files_of_unclaimed_marks_are_dropped(outcome: KeyOutcome | None, second_pass: bool) -> None:
    assert sort(outcome, {}, second_pass=second_pass) == Leftovers([7], [], 0)


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(None, KEPT), (KeyOutcome.DELETED, KEPT), (KeyOutcome.CHANGED, KEPT), (KeyOutcome.FAILED, Leftovers([], [7], 0))],
)
def test_claimed_files_stay_and_failed_ones_are_retried(
    outcome: KeyOutcome | None, expected: Leftovers, second_pass: bool
) -> None:
    assert sort(outcome, FIRST_PASS, second_pass=second_pass) == expected


@pytest.mark.parametrize("outcome", [None, KeyOutcome.FAILED, KeyOutcome.CHANGED])
def test_undone_files_of_a_second_pass_are_dropped_last(outcome: KeyOutcome | None) -> None:
    assert sort(outcome, SECOND_PASS, second_pass=False) == Leftovers([], [], 1)
    assert sort(outcome, SECOND_PASS, second_pass=True) == Leftovers([7], [], 0)


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.parametrize("outcome", [KeyOutcome.DELETED, KeyOutcome.ABSENT, KeyOutcome.HIDDEN])
def test_deleted_files_of_a_second_pass_stay(outcome: KeyOutcome, second_pass: bool) -> None:
    assert sort(outcome, SECOND_PASS, second_pass=second_pass) == KEPT
