"""A claim follows each of its rules, and all rules together."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.keepers import BY_LIMIT, LIVE, WAITS_FOR_CHILD, Kept, by_hold
from sexton.marks.model import Candidate, ClaimRequest, Lease, MarkState, Ref, WriteToken
from sexton.recycle.pipeline.decide import ChildMark, ClaimDecision, LockedMark, decide

TOKEN = WriteToken(batch=1, round=1, lease=Lease(instance="shop", job="recycle", owner="run", epoch=1), attempt=1)
CUTOFF = 100
A, B, CHILD, OTHER_CHILD = (Ref("dropped", name) for name in ("a", "b", "child", "other"))
MARKED = LockedMark("disk", MarkState.MARKED, quarantined=False, retention_starts_at=CUTOFF)
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
    def test_a_mark_made_again_since_the_resolve_is_left_out(self) -> None:
        resolved = Candidate(A, retention_starts_at=CUTOFF - 1)

        assert decided(resolved) == ClaimDecision([], [], {})
        assert claimed(decided(resolved._replace(retention_starts_at=CUTOFF))) == [A]

    def test_a_due_mark_is_claimed(self) -> None:
        assert claimed(decided(Candidate(A))) == [A]

    def test_a_mark_that_could_not_be_locked_is_left_out(self) -> None:
        assert decided(Candidate(A), locked={}) == ClaimDecision([], [], {})

    def test_a_mark_younger_than_the_cutoff_is_left_out(self) -> None:
        young = MARKED._replace(retention_starts_at=CUTOFF + 1)

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
    def test_blocked_mark_is_kept_with_the_reason(self) -> None:
        decision = decided(Candidate(A), Candidate(B), blocked={A: by_hold(7)})

        assert (claimed(decision), decision.keep_reasons) == ([B], {A: by_hold(7)})

    def test_reason_of_the_mark_precedes_that_of_its_child(self) -> None:
        parent = Candidate(A, children=frozenset({CHILD}))
        child = ChildMark(CHILD, A, MarkState.MARKED)

        decision = decided(parent, children=[child], blocked={CHILD: LIVE, A: by_hold(1)})

        assert decision.keep_reasons == {A: by_hold(1)}


class TestChildren:
    PARENT = Candidate(A, children=frozenset({CHILD}))

    def test_children_are_absorbed_by_their_parent(self) -> None:
        decision = decided(self.PARENT, children=[ChildMark(CHILD, A, MarkState.MARKED)])

        assert (claimed(decision), decision.absorbed) == ([A], [CHILD])

    def test_blocked_child_blocks_its_parent(self) -> None:
        decision = decided(self.PARENT, children=[ChildMark(CHILD, A, MarkState.MARKED)], blocked={CHILD: by_hold(3)})

        assert (claimed(decision), decision.absorbed, decision.keep_reasons) == ([], [], {A: by_hold(3)})

    def test_locked_child_blocks_its_parent(self) -> None:
        assert decided(self.PARENT, children=[ChildMark(CHILD, A, None)]).keep_reasons == {A: WAITS_FOR_CHILD}

    def test_child_claimed_by_another_batch_blocks_its_parent(self) -> None:
        assert decided(self.PARENT, children=[ChildMark(CHILD, A, MarkState.CLAIMED)]).keep_reasons == {
            A: WAITS_FOR_CHILD
        }

    def test_child_with_an_own_retention_blocks_its_parent(self) -> None:
        child = ChildMark(CHILD, A, MarkState.MARKED, waits=True)

        assert decided(self.PARENT, children=[child]).keep_reasons == {A: WAITS_FOR_CHILD}

    def test_child_added_after_the_resolve_blocks_its_parent(self) -> None:
        late = ChildMark(OTHER_CHILD, A, MarkState.MARKED)

        assert decided(self.PARENT, children=[late]).keep_reasons == {A: WAITS_FOR_CHILD}

    def test_unfenced_child_blocks_its_parent(self) -> None:
        resolved = {CHILD: Candidate(CHILD, must_be_fenced=True)}
        unfenced, fenced = ChildMark(CHILD, A, MarkState.MARKED), ChildMark(CHILD, A, MarkState.FENCED)

        assert decided(self.PARENT, children=[unfenced], resolved_children=resolved).keep_reasons == {
            A: WAITS_FOR_CHILD
        }
        assert claimed(decided(self.PARENT, children=[fenced], resolved_children=resolved)) == [A]

    def test_children_of_a_mark_that_absorbs_none_are_ignored(self) -> None:
        decision = decided(Candidate(A), children=[ChildMark(CHILD, A, None)])

        assert (claimed(decision), decision.absorbed) == ([A], [])


class TestLimit:
    def test_mark_over_the_limit_is_kept(self) -> None:
        decision = decided(Candidate(A, files=6), Candidate(B, files=5), allowance=10)

        assert (claimed(decision), decision.keep_reasons, decision.objects) == ([A], {B: BY_LIMIT}, 6)

    def test_the_limit_is_reached_exactly(self) -> None:
        assert claimed(decided(Candidate(A, files=4), allowance=10, objects_claimed=6)) == [A]
        assert claimed(decided(Candidate(A, files=5), allowance=10, objects_claimed=6)) == []

    def test_a_smaller_mark_may_fit_behind_a_larger_one(self) -> None:
        assert claimed(decided(Candidate(A, files=11), Candidate(B, files=1), allowance=10)) == [B]

    def test_kept_mark_does_not_count_against_the_limit(self) -> None:
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
    retention_starts_at=st.sampled_from((CUTOFF - 1, CUTOFF, CUTOFF + 1)),
)
candidates = st.lists(
    st.builds(
        Candidate, ref=refs, files=st.integers(0, 5), must_be_fenced=st.booleans(), retention_starts_at=st.none()
    ),
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
        assert (row.quarantined, row.retention_starts_at <= CUTOFF, candidate.ref in blocked) == (False, True, False)
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
            assert row.state is MarkState.CLAIMED or row.quarantined or row.retention_starts_at > CUTOFF or unfenced


@st.composite
def parents_and_children(draw: st.DrawFn) -> tuple[list[Candidate], list[ChildMark], dict[Ref, Candidate]]:
    """Draw candidates that may absorb children, the children's rows, and the children as they were resolved."""
    parents = draw(candidates)
    names = [Ref("tablet", str(n)) for n in range(4)]
    rows, resolved = [], {}
    for name in names if parents else []:
        parent = draw(st.sampled_from(parents)).ref
        rows.append(ChildMark(name, parent, draw(st.none() | st.sampled_from((MarkState.MARKED, *MarkState)))))
        if draw(st.booleans()):
            resolved[name] = Candidate(name, must_be_fenced=draw(st.booleans()))
    absorbing = st.none() | st.frozensets(st.sampled_from(names), min_size=3)
    return [parent._replace(children=draw(absorbing)) for parent in parents], rows, resolved


def may_join(child: ChildMark, parent: Candidate, resolved: Mapping[Ref, Candidate]) -> bool:
    """Restate when a child may be claimed with its parent."""
    fence = child.ref in resolved and resolved[child.ref].must_be_fenced
    states = {MarkState.FENCED} if fence else {MarkState.FENCED, MarkState.MARKED}
    return child.state in states and child.ref in (parent.children or ())


@given(
    parents_and_children(),
    st.dictionaries(st.sampled_from([Ref("tablet", str(n)) for n in range(4)]), st.just(by_hold(1)), max_size=1),
    st.none() | st.integers(0, 12),
)
def test_a_parent_is_claimed_with_all_its_children(
    family: tuple[list[Candidate], list[ChildMark], dict[Ref, Candidate]],
    blocked: dict[Ref, Kept],
    allowance: int | None,
) -> None:
    parents, children, resolved = family
    locked = {parent.ref: FENCED for parent in parents}

    decision = decided(
        *parents,
        locked=locked,
        children=children,
        resolved_children=resolved,
        blocked=blocked,
        allowance=allowance,
    )

    used, expected, absorbed = 0, [], []
    for parent in parents:
        own = [c for c in children if c.parent == parent.ref and parent.children is not None]
        joined = all(may_join(child, parent, resolved) and child.ref not in blocked for child in own)
        if joined and (allowance is None or used + parent.files <= allowance):
            used += parent.files
            expected.append(parent.ref)
            absorbed += [child.ref for child in own]
    assert (claimed(decision), decision.absorbed, decision.objects) == (expected, absorbed, used)
    assert decision.keep_reasons.keys() == locked.keys() - set(expected)
