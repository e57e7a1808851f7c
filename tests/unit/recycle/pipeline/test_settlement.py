"""The outcomes of the files decide how a claimed mark is settled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.model import DeletionCounts, Settlement
from sexton.marks.policy import settlement_of

DONE = DeletionCounts(prefix=None, first_pass_at=None, files=3, done=3, failed=0)


@pytest.mark.parametrize(
    ("counts", "settlement"),
    [
        (DONE, Settlement.GONE),
        (DONE._replace(files=0, done=0), Settlement.GONE),
        (DONE._replace(done=2), Settlement.WAITING),
        (DONE._replace(done=2, failed=1), Settlement.FAILED),
        (DONE._replace(done=2, changed=1), Settlement.CHANGED),
        (DONE._replace(done=1, changed=1, failed=1), Settlement.CHANGED),
        (DONE._replace(lacking="SCHEMA_MISSING"), Settlement.LACKING),
        (DONE._replace(lacking="SCHEMA_MISSING", done=2), Settlement.WAITING),
        (DONE._replace(prefix="data/"), Settlement.SECOND_PASS),
        (DONE._replace(prefix="data/", first_pass_at=1), Settlement.GONE),
        (DONE._replace(prefix="data/", lacking="SCHEMA_MISSING"), Settlement.LACKING),
    ],
)
def test_a_mark_is_settled_by_its_outcomes(counts: DeletionCounts, settlement: Settlement) -> None:
    assert settlement_of(counts) is settlement


@given(
    st.builds(
        DeletionCounts,
        prefix=st.none() | st.just("p/"),
        first_pass_at=st.none() | st.just(1),
        files=st.integers(0, 3),
        done=st.integers(0, 3),
        failed=st.integers(0, 1),
        changed=st.integers(0, 1),
        lacking=st.none() | st.just("SCHEMA_MISSING"),
    )
)
def test_a_record_is_removed_only_if_all_is_confirmed(counts: DeletionCounts) -> None:
    confirmed = counts.done >= counts.files and not counts.failed and not counts.changed
    seen_twice = counts.prefix is None or counts.first_pass_at is not None

    assert (settlement_of(counts) is Settlement.GONE) == (confirmed and not counts.lacking and seen_twice)
    assert (settlement_of(counts) is Settlement.SECOND_PASS) == (confirmed and not counts.lacking and not seen_twice)
