"""Children keep their parents, a candidate is what its owner answers, and stated bytes are divided among keys."""

from collections.abc import Mapping

from sexton.marks.kept import IN_USE, LIVE, Kept, by_hold
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.recycle.pipeline.resolve import candidate_of, spread_to_parents, stated_shares

KEYS = Place(vault="cold", keys=("a", "b"))
PREFIX = Place(vault="cold", prefix="t/")


def mark(name: str) -> DueMark:
    return DueMark(kind="dropped", id=name, retention_starts_at=0, vault="disk", prefix=f"{name}/", keys=None, bytes=0)


PARENT, CHILD, OTHER = mark("parent"), mark("child"), mark("other")


SPREADS: list[tuple[Mapping[Ref, Kept], set[Ref], Mapping[Ref, Kept]]] = [
    ({}, set(), {}),
    ({CHILD.ref: by_hold(1)}, set(), {CHILD.ref: by_hold(1), PARENT.ref: by_hold(1)}),
    ({}, {CHILD.ref}, {PARENT.ref: IN_USE}),
    ({PARENT.ref: LIVE, CHILD.ref: by_hold(1)}, set(), {PARENT.ref: LIVE, CHILD.ref: by_hold(1)}),
]


def test_a_child_that_is_kept_keeps_its_parent() -> None:
    for kept, quarantined, spread in SPREADS:
        assert spread_to_parents([PARENT, OTHER], {PARENT.ref: [CHILD]}, kept, quarantined) == spread


def test_candidate_contains_the_owners_expansion() -> None:
    expansion = Expansion(
        fence=True, absorbs=True, lacking=Reason.SCHEMA_MISSING, above=(Ref("table", "t"),), versions=("tablet", 4)
    )

    candidate = candidate_of(PARENT.ref, expansion, [CHILD])

    assert (candidate.must_be_fenced, candidate.children) == (True, {CHILD.ref})
    assert (candidate.lacking, candidate.ancestors) == (Reason.SCHEMA_MISSING, {Ref("table", "t")})
    assert candidate.versions == ("tablet", 4)
    assert candidate_of(PARENT.ref, Expansion(), [CHILD]).children is None


def test_the_shares_of_keys_sum_to_what_is_stated() -> None:
    warm, none = Place(vault="warm", keys=("c",)), Place(vault="cold", keys=())

    assert list(stated_shares(11, [KEYS, warm])) == [3, 4, 4]
    assert list(stated_shares(1, [KEYS])) == [0, 1]
    for stated, places in ((0, [KEYS]), (11, [KEYS, PREFIX]), (11, [none])):
        assert list(stated_shares(stated, places)) == []
