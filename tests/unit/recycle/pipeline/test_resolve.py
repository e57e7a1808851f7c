"""Children keep their parents, a candidate is what its owner answers, and stated bytes are divided among keys."""

from collections.abc import Mapping

import pytest

from sexton.marks.keepers import IN_USE, LIVE, Kept, by_hold
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.recycle.pipeline.resolve import candidate_of, spread_to_parents, stated_shares

KEYS = Place(vault="cold", keys=("a", "b"))
PREFIX = Place(vault="cold", prefix="t/")


def mark(name: str) -> DueMark:
    return DueMark(kind="dropped", id=name, retention_starts_at=0, vault="disk", prefix=f"{name}/", keys=None, bytes=0)


PARENT, CHILD, OTHER = mark("parent"), mark("child"), mark("other")


@pytest.mark.parametrize(
    ("kept", "quarantined", "spread"),
    [
        ({}, set(), {}),
        ({CHILD.ref: by_hold(1)}, set(), {CHILD.ref: by_hold(1), PARENT.ref: by_hold(1)}),
        ({}, {CHILD.ref}, {PARENT.ref: IN_USE}),
        ({PARENT.ref: LIVE, CHILD.ref: by_hold(1)}, set(), {PARENT.ref: LIVE, CHILD.ref: by_hold(1)}),
    ],
)
def test_a_child_that_is_kept_keeps_its_parent(
    kept: Mapping[Ref, Kept], quarantined: set[Ref], spread: Mapping[Ref, Kept]
) -> None:
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


@pytest.mark.parametrize(
    ("stated", "places", "shares"),
    [
        (11, [KEYS, Place(vault="warm", keys=("c",))], [3, 4, 4]),
        (1, [KEYS], [0, 1]),
        (0, [KEYS], []),
        (11, [KEYS, PREFIX], []),
        (11, [Place(vault="cold", keys=())], []),
    ],
)
def test_the_shares_of_keys_sum_to_what_is_stated(stated: int, places: list[Place], shares: list[int]) -> None:
    assert list(stated_shares(stated, places)) == shares
