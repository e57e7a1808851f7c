"""A claim follows each of its rules, and all rules together."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.kept import BY_LIMIT, LIVE, WAITS_FOR_CHILD, Kept, by_hold
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


OWN_ROWS = [
    (Candidate(A), MARKED, True),
    (Candidate(A), None, False),  # it could not be locked
    (Candidate(A), MARKED._replace(retention_starts_at=CUTOFF + 1), False),  # younger than the cutoff
    (Candidate(A), MARKED._replace(quarantined=True), False),
    (Candidate(A), MARKED._replace(state=MarkState.CLAIMED), False),
    (Candidate(A), FENCED, True),
    (Candidate(A, must_be_fenced=True), MARKED, False),
    (Candidate(A, must_be_fenced=True), FENCED, True),
    (Candidate(A, retention_starts_at=CUTOFF), MARKED, True),
    (Candidate(A, retention_starts_at=CUTOFF - 1), MARKED, False),  # made again since the resolve
]
"""Candidate, its row under the lock, whether it is claimed."""


def test_a_mark_is_claimed_or_left_out_by_its_own_row() -> None:
    for candidate, row, is_claimed in OWN_ROWS:
        decision = decided(candidate, locked={} if row is None else {A: row})

        assert decision == (ClaimDecision([candidate], [], {}) if is_claimed else ClaimDecision([], [], {})), row


def test_blocked_mark_is_kept_with_the_reason() -> None:
    decision = decided(Candidate(A), Candidate(B), blocked={A: by_hold(7)})

    assert (claimed(decision), decision.keep_reasons) == ([B], {A: by_hold(7)})


PARENT = Candidate(A, children=frozenset({CHILD}))
MARKED_CHILD = ChildMark(CHILD, A, MarkState.MARKED)
RESOLVED = {CHILD: Candidate(CHILD, must_be_fenced=True)}
BLOCKING_CHILDREN: list[tuple[ChildMark, Mapping[Ref, Candidate], Mapping[Ref, Kept], Kept]] = [
    (MARKED_CHILD, {}, {CHILD: by_hold(3)}, by_hold(3)),
    (MARKED_CHILD, {}, {CHILD: LIVE, A: by_hold(1)}, by_hold(1)),  # the mark's own reason comes first
    (ChildMark(CHILD, A, None), {}, {}, WAITS_FOR_CHILD),  # it is locked
    (ChildMark(CHILD, A, MarkState.CLAIMED), {}, {}, WAITS_FOR_CHILD),  # by another batch
    (ChildMark(CHILD, A, MarkState.MARKED, waits=True), {}, {}, WAITS_FOR_CHILD),  # it has an own retention
    (ChildMark(OTHER_CHILD, A, MarkState.MARKED), {}, {}, WAITS_FOR_CHILD),  # it was added after the resolve
    (MARKED_CHILD, RESOLVED, {}, WAITS_FOR_CHILD),  # it must be fenced
]


def test_a_child_that_may_not_be_claimed_blocks_its_parent() -> None:
    for child, resolved, blocked, reason in BLOCKING_CHILDREN:
        decision = decided(PARENT, children=[child], resolved_children=resolved, blocked=blocked)

        assert (claimed(decision), decision.absorbed, decision.keep_reasons) == ([], [], {A: reason}), child


def test_children_are_absorbed_by_their_parent() -> None:
    fenced = MARKED_CHILD._replace(state=MarkState.FENCED)
    for child, resolved in ((MARKED_CHILD, {}), (fenced, {}), (fenced, RESOLVED)):
        decision = decided(PARENT, children=[child], resolved_children=resolved)
        assert (claimed(decision), decision.absorbed) == ([A], [CHILD])

    of_none = decided(Candidate(A), children=[ChildMark(CHILD, A, None)])
    assert (claimed(of_none), of_none.absorbed) == ([A], [])  # it absorbs none


def test_a_mark_over_the_limit_is_kept() -> None:
    six, five, one = Candidate(A, files=6), Candidate(B, files=5), Candidate(B, files=1)
    decision = decided(six, five, allowance=10)

    assert (claimed(decision), decision.keep_reasons, decision.objects) == ([A], {B: BY_LIMIT}, 6)
    assert claimed(decided(six, allowance=10, objects_claimed=4)) == [A]  # the limit is reached exactly
    assert claimed(decided(six, allowance=10, objects_claimed=5)) == []
    assert claimed(decided(Candidate(A, files=11), one, allowance=10)) == [B]  # a smaller one may fit behind it
    assert claimed(decided(six, five, blocked={A: LIVE}, allowance=10)) == [B]  # a kept one does not count
    assert claimed(decided(Candidate(A, files=10**9), objects_claimed=10**9)) == [A]  # there is no limit


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
        if candidate.ref in locked and candidate.ref not in {*claimed(decision), *decision.keep_reasons}:
            row = locked[candidate.ref]
            unfenced = candidate.must_be_fenced and row.state is MarkState.MARKED
            assert row.state is MarkState.CLAIMED or row.quarantined or row.retention_starts_at > CUTOFF or unfenced


NAMES = [Ref("tablet", str(n)) for n in range(4)]
ABSORBED = st.none() | st.frozensets(st.sampled_from(NAMES), min_size=3)
CHILDREN = st.tuples(
    st.integers(0, 5),
    st.none() | st.sampled_from((MarkState.MARKED, *MarkState)),
    st.none() | st.booleans(),
)
"""Of each child: which parent it has, its state, and whether it must be fenced, if it was resolved."""


@st.composite
def parents_and_children(draw: st.DrawFn) -> tuple[list[Candidate], list[ChildMark], dict[Ref, Candidate]]:
    """Draw candidates that may absorb children, the children's rows, and the children as they were resolved."""
    parents = draw(candidates)
    rows, resolved = [], {}
    for name in NAMES if parents else []:
        number, state, fence = draw(CHILDREN)
        rows.append(ChildMark(name, parents[number % len(parents)].ref, state))
        if fence is not None:
            resolved[name] = Candidate(name, must_be_fenced=fence)
    return [parent._replace(children=draw(ABSORBED)) for parent in parents], rows, resolved


def may_join(child: ChildMark, parent: Candidate, resolved: Mapping[Ref, Candidate]) -> bool:
    """Restate when a child may be claimed with its parent."""
    fence = child.ref in resolved and resolved[child.ref].must_be_fenced
    states = {MarkState.FENCED} if fence else {MarkState.FENCED, MarkState.MARKED}
    return child.state in states and child.ref in (parent.children or ())


@given(
    parents_and_children(),
    st.dictionaries(st.sampled_from(NAMES), st.just(by_hold(1)), max_size=1),
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
        *parents, locked=locked, children=children, resolved_children=resolved, blocked=blocked, allowance=allowance
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
