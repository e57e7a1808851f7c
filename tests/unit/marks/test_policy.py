"""Cutoffs: which marks are due, in Python and in SQL."""

from itertools import product

from sqlalchemy import not_

from sexton.database.tables.marks import mark
from sexton.marks.model import Cutoff
from sexton.marks.policy import due_by, earlier, goes_beyond, is_due
from sexton.marks.sql import rows

INSTANTS = (0, 1, 2, 3)
CUTOFFS = tuple(map(Cutoff, INSTANTS))


def test_a_mark_is_due_when_its_retention_is_over() -> None:
    cutoff = due_by(10, now=70_000)

    assert [is_due(started, cutoff) for started in (59_999, 60_000, 60_001)] == [True, True, False]


def test_the_earlier_cutoff_makes_due_what_is_due_by_both() -> None:
    for first, second in product(CUTOFFS, repeat=2):
        by_both = [is_due(t, first) and is_due(t, second) for t in INSTANTS]
        assert [is_due(t, earlier(first, second)) for t in INSTANTS] == by_both
        assert goes_beyond(first, second) == any(is_due(t, first) and not is_due(t, second) for t in INSTANTS)


def test_due_marks_and_the_others_are_ranges_of_the_index() -> None:
    is_due_now = rows.is_due(mark, Cutoff(5))

    assert str(is_due_now) == "sexton.mark.retention_starts_at <= :retention_starts_at_1"
    assert str(not_(is_due_now)) == "sexton.mark.retention_starts_at > :retention_starts_at_1"
