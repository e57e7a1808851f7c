"""A plan divides the due marks of a kind into shards of about the same size: each mark is in exactly one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.contract import NewMark
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.planning import policy
from sexton.recycle.planning.model import KindPlan
from sexton.recycle.planning.policy import shard_count
from sexton.recycle.planning.sql import measure
from tests.support.claims import FAR_MS
from tests.support.rig import Rig


def ids_of_shards(rig: Rig, kind: KindPlan) -> list[list[str]]:
    """Return the marks that each shard's ranges select."""
    cursor, shards = Cursor(), []
    for shard in kind.shards:
        due = rig.stores.due_marks.select_due("shop", kind.kind, kind.cutoff, cursor, 1_000, shard.until)
        shards.append([mark.id for mark in due])
        cursor = shard.until or cursor
    return shards


@pytest.mark.parametrize("page", [2, 50])
def test_each_due_mark_is_in_exactly_one_shard(rig: Rig, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    monkeypatch.setattr(policy, "SHARD_OBJECTS", 10)
    monkeypatch.setattr(measure, "PAGE_MARKS", page)
    for minute in range(4):  # 10 marks of one statement have one instant
        names = [f"{minute}{n}" for n in range(10 if minute else 3)]
        rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in names))
        rig.later(60)
    rig.later(10_801)
    rig.mark("dropped", NewMark(id="young", vault="disk", keys=("young.dat",)))

    [kind] = rig.plan().kinds

    shards = ids_of_shards(rig, kind)
    everything = [m.id for m in rig.stores.due_marks.select_due("shop", "dropped", kind.cutoff, Cursor(), 1_000)]
    assert [mark for shard in shards for mark in shard] == everything
    assert [shard.marks for shard in kind.shards] == [len(shard) for shard in shards] == [9, 9, 9, 6]


def test_a_small_kind_is_one_shard(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)), NewMark(id="b", vault="disk", keys=("b.dat",)))
    rig.later(10_801)

    [kind] = rig.plan().kinds

    assert kind.shards == ()


def test_marks_made_after_the_plan_are_left_to_the_next_round(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "SHARD_OBJECTS", 2)
    rig.mark("dropped", *(NewMark(id=f"a{n}", vault="disk", keys=(f"{n}.dat",)) for n in range(4)))
    rig.later(10_801)
    plan = rig.plan()
    rig.mark("dropped", NewMark(id="late", vault="disk", keys=("late.dat",)))
    rig.later(10_801)

    shards = ids_of_shards(rig, plan.kinds[0])

    assert shards == [["a0", "a1"], ["a2", "a3"]]
    assert len(rig.stores.due_marks.select_due("shop", "dropped", FAR_MS, Cursor(), 10)) == 5


@given(marks=st.integers(1, 10**9), per_mark=st.integers(0, 10**6))
def test_number_of_shards_follows_the_objects(marks: int, per_mark: int) -> None:
    shards = shard_count(marks, marks * per_mark)

    assert 1 <= shards <= min(marks, policy.MOST_SHARDS)
    assert shards == policy.MOST_SHARDS or shards == marks or marks * per_mark <= shards * policy.SHARD_OBJECTS
