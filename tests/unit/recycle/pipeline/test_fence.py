"""A parent is kept with every child that is kept."""

from sexton.marks.keepers import IN_USE, LIVE, by_hold
from sexton.marks.model import DueMark, Expansion, Reason, Ref
from sexton.recycle.pipeline.fence import candidate_of, spread_to_parents


def mark(name: str) -> DueMark:
    return DueMark(kind="dropped", id=name, retention_starts_at=0, vault="disk", prefix=f"{name}/", keys=None, bytes=0)


PARENT, CHILD, OTHER = mark("parent"), mark("child"), mark("other")
CHILDREN = {PARENT.ref: [CHILD]}


def test_kept_child_blocks_its_parent_with_its_reason() -> None:
    reasons = spread_to_parents([PARENT, OTHER], CHILDREN, {CHILD.ref: by_hold(1)}, set())

    assert reasons == {CHILD.ref: by_hold(1), PARENT.ref: by_hold(1)}


def test_quarantined_child_blocks_its_parent() -> None:
    assert spread_to_parents([PARENT], CHILDREN, {}, {CHILD.ref}) == {PARENT.ref: IN_USE}


def test_kept_parent_has_its_own_reason() -> None:
    reasons = spread_to_parents([PARENT], CHILDREN, {PARENT.ref: LIVE, CHILD.ref: by_hold(1)}, set())

    assert reasons[PARENT.ref] == LIVE


def test_nothing_spreads_if_nothing_is_kept() -> None:
    assert spread_to_parents([PARENT, OTHER], CHILDREN, {}, set()) == {}


def test_candidate_contains_the_owners_expansion() -> None:
    expansion = Expansion(
        fence=True, absorbs=True, lacking=Reason.SCHEMA_MISSING, above=(Ref("table", "t"),), versions=("tablet", 4)
    )

    candidate = candidate_of(PARENT.ref, expansion, [CHILD])

    assert (candidate.must_be_fenced, candidate.children) == (True, {CHILD.ref})
    assert (candidate.lacking, candidate.ancestors) == (Reason.SCHEMA_MISSING, {Ref("table", "t")})
    assert candidate.versions == ("tablet", 4)
    assert candidate_of(PARENT.ref, Expansion(), [CHILD]).children is None
