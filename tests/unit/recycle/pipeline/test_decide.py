"""What a claim decides: each rule alone, then all together against a plain restatement of them."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.keepers import BY_LIMIT, LIVE, WAITS_FOR_CHILD, Kept, by_hold
from sexton.marks.lease import Lease
from sexton.marks.model import Candidate, ClaimRequest, MarkState, Ref, WriteToken
from sexton.recycle.pipeline.decide import ChildMark, ClaimDecision, LockedMark, decide

TOKEN = WriteToken(batch=1, round=1, lease=Lease(instance="shop", job="recycle", owner="run", epoch=1), attempt=1)
CUTOFF = 100
A, B, CHILD, OTHER_CHILD = (Ref("dropped", name) for name in ("a", "b", "child", "other"))
MARKED = LockedMark("disk", MarkState.MARKED, quarantined=False, ages_from=CUTOFF)
FENCED = MARKED._replace(state=MarkState.FENCED)


def decided(
    *candidates: Candidate,
    locked: Mapping[Ref, LockedMark] | None = None,
    children: Sequence[ChildMark] = (),
    resolved_children: Mapping[Ref, Candidate] | None = None,
    blocked: Mapping[Ref, Kept] | None = None,
    allowance: int | None = None,
    objects_claimed: int = 0,
) -> ClaimDecision:
    request = ClaimRequest(TOKEN, candidates, CUTOFF, resolved_children or {}, allowance)
    rows = locked if locked is not None else {candidate.ref: MARKED for candidate in candidates}
    return decide(request, rows, children, blocked or {}, objects_claimed)


def claimed(decision: ClaimDecision) -> list[Ref]:
    return [candidate.ref for candidate in decision.claimed]


class TestOwnRow:
    def test_a_due_mark_is_claimed(self) -> None:
        assert claimed(decided(Candidate(A))) == [A]

    def test_a_mark_that_could_not_be_locked_is_left_out(self) -> None:
        assert decided(Candidate(A), locked={}) == ClaimDecision([], [], {})

    def test_a_mark_younger_than_the_cutoff_is_left_out(self) -> None:
        young = MARKED._replace(ages_from=CUTOFF + 1)

        assert decided(Candidate(A), locked={A: young}) == ClaimDecision([], [], {})

    def test_a_quarantined_mark_is_left_out(self) -> None:
        assert claimed(decided(Candidate(A), locked={A: MARKED._replace(quarantined=True)})) == []

    def test_a_claimed_mark_is_not_claimed_again(self) -> None:
        assert claimed(decided(Candidate(A), locked={A: MARKED._replace(state=MarkState.CLAIMED)})) == []

    def test_a_mark_that_must_be_fenced_is_claimed_only_fenced(self) -> None:
        candidate = Candidate(A, must_be_fenced=True)

        assert claimed(decided(candidate)) == []
        assert claimed(decided(candidate, locked={A: FENCED})) == [A]

    def test_a_fenced_mark_that_need_not_be_is_claimed(self) -> None:
        assert claimed(decided(Candidate(A), locked={A: FENCED})) == [A]


class TestKeepers:
    def test_a_blocked_mark_is_kept_with_the_answer(self) -> None:
        decision = decided(Candidate(A), Candidate(B), blocked={A: by_hold(7)})

        assert (claimed(decision), decision.keep_reasons) == ([B], {A: by_hold(7)})

    def test_the_answer_about_the_mark_comes_before_its_childs(self) -> None:
        parent = Candidate(A, children=frozenset({CHILD}))
        child = ChildMark(CHILD, A, MarkState.MARKED)

        decision = decided(parent, children=[child], blocked={CHILD: LIVE, A: by_hold(1)})

        assert decision.keep_reasons == {A: by_hold(1)}


class TestChildren:
    PARENT = Candidate(A, children=frozenset({CHILD}))

    def test_children_are_absorbed_by_their_parent(self) -> None:
        decision = decided(self.PARENT, children=[ChildMark(CHILD, A, MarkState.MARKED)])

        assert (claimed(decision), decision.absorbed) == ([A], [CHILD])

    def test_a_blocked_child_keeps_its_parent(self) -> None:
        decision = decided(self.PARENT, children=[ChildMark(CHILD, A, MarkState.MARKED)], blocked={CHILD: by_hold(3)})

        assert (claimed(decision), decision.absorbed, decision.keep_reasons) == ([], [], {A: by_hold(3)})

    def test_a_child_that_another_transaction_locks_keeps_its_parent(self) -> None:
        assert decided(self.PARENT, children=[ChildMark(CHILD, A, None)]).keep_reasons == {A: WAITS_FOR_CHILD}

    def test_a_child_that_another_batch_claimed_keeps_its_parent(self) -> None:
        assert decided(self.PARENT, children=[ChildMark(CHILD, A, MarkState.CLAIMED)]).keep_reasons == {
            A: WAITS_FOR_CHILD
        }

    def test_a_child_that_came_after_the_resolve_keeps_its_parent(self) -> None:
        late = ChildMark(OTHER_CHILD, A, MarkState.MARKED)

        assert decided(self.PARENT, children=[late]).keep_reasons == {A: WAITS_FOR_CHILD}

    def test_a_child_that_must_be_fenced_keeps_its_parent_until_it_is(self) -> None:
        resolved = {CHILD: Candidate(CHILD, must_be_fenced=True)}
        unfenced, fenced = ChildMark(CHILD, A, MarkState.MARKED), ChildMark(CHILD, A, MarkState.FENCED)

        assert decided(self.PARENT, children=[unfenced], resolved_children=resolved).keep_reasons == {
            A: WAITS_FOR_CHILD
        }
        assert claimed(decided(self.PARENT, children=[fenced], resolved_children=resolved)) == [A]

    def test_children_of_a_mark_that_absorbs_none_do_not_matter(self) -> None:
        decision = decided(Candidate(A), children=[ChildMark(CHILD, A, None)])

        assert (claimed(decision), decision.absorbed) == ([A], [])


class TestLimit:
    def test_what_exceeds_the_limit_is_kept(self) -> None:
        decision = decided(Candidate(A, files=6), Candidate(B, files=5), allowance=10)

        assert (claimed(decision), decision.keep_reasons, decision.objects) == ([A], {B: BY_LIMIT}, 6)

    def test_the_limit_is_reached_exactly(self) -> None:
        assert claimed(decided(Candidate(A, files=4), allowance=10, objects_claimed=6)) == [A]
        assert claimed(decided(Candidate(A, files=5), allowance=10, objects_claimed=6)) == []

    def test_a_smaller_mark_may_fit_behind_a_larger_one(self) -> None:
        assert claimed(decided(Candidate(A, files=11), Candidate(B, files=1), allowance=10)) == [B]

    def test_a_kept_mark_uses_no_room(self) -> None:
        decision = decided(Candidate(A, files=9), Candidate(B, files=9), blocked={A: LIVE}, allowance=10)

        assert claimed(decision) == [B]

    def test_without_a_limit_everything_fits(self) -> None:
        assert claimed(decided(Candidate(A, files=10**9), objects_claimed=10**9)) == [A]


refs = st.sampled_from([Ref("dropped", str(n)) for n in range(6)])
rows = st.builds(
    LockedMark,
    vault=st.just("disk"),
    state=st.sampled_from(MarkState),
    quarantined=st.booleans(),
    ages_from=st.sampled_from((CUTOFF - 1, CUTOFF, CUTOFF + 1)),
)
candidates = st.lists(
    st.builds(Candidate, ref=refs, files=st.integers(0, 5), must_be_fenced=st.booleans()),
    unique_by=lambda candidate: candidate.ref,
)


@given(
    candidates,
    st.dictionaries(refs, rows),
    st.dictionaries(refs, st.sampled_from((LIVE, by_hold(1)))),
    st.none() | st.integers(0, 12),
    st.integers(0, 6),
)
def test_no_claim_breaks_a_rule(
    chosen: list[Candidate],
    locked: dict[Ref, LockedMark],
    blocked: dict[Ref, Kept],
    allowance: int | None,
    objects_claimed: int,
) -> None:
    decision = decided(*chosen, locked=locked, blocked=blocked, allowance=allowance, objects_claimed=objects_claimed)

    assert not set(claimed(decision)) & decision.keep_reasons.keys()
    for candidate in decision.claimed:
        row = locked[candidate.ref]
        assert row.state is MarkState.FENCED or (row.state is MarkState.MARKED and not candidate.must_be_fenced)
        assert (row.quarantined, row.ages_from <= CUTOFF, candidate.ref in blocked) == (False, True, False)
    if allowance is not None and decision.claimed:
        assert objects_claimed + decision.objects <= allowance
    for candidate in chosen:
        if (
            candidate.ref in locked
            and candidate.ref not in claimed(decision)
            and candidate.ref not in decision.keep_reasons
        ):
            row = locked[candidate.ref]
            unfenced = candidate.must_be_fenced and row.state is MarkState.MARKED
            assert row.state is MarkState.CLAIMED or row.quarantined or row.ages_from > CUTOFF or unfenced
