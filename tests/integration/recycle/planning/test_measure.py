"""Due marks are counted in pages with heartbeats, divided into shards of about one size, and listed by few kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton import contract
from sexton.contract import NewMark
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.status import overview
from sexton.interfaces.cli.render.status import show_instance
from sexton.marks.kept import KeepReason
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.planning import policy
from sexton.recycle.planning.model import KindPlan
from sexton.recycle.planning.policy import shard_count
from sexton.recycle.planning.sql import measure
from sexton.recycle.planning.sql.measure import MOST_COUNTED, MOST_KINDS, Measure
from tests.support.claims import FAR_MS
from tests.support.planned import Limited, kind_plan, limited_policy, marks_by_kind, waiting_plans
from tests.support.rig import INTERVAL, Rig, stores_of

MARKS = 30
PAGES = 16
"""30 marks in pages of 2, and the page that is found empty."""


class Heartbeats:
    """Counts calls."""

    count = 0

    def __call__(self) -> None:
        self.count += 1


def test_marks_are_counted_in_pages_with_heartbeats(shop: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "PAGE_MARKS", 2)
    shop.policy = limited_policy(objects=5)
    shop.garbage("dropped", MARKS, later=10_801)

    without_retention, compared, applied = Heartbeats(), Heartbeats(), Heartbeats()
    with shop.db.read() as tx:
        assert Measure(shop.db, tx, "shop", shop.policy, without_retention).count_waiting("dropped") == MARKS
    assert without_retention.count == PAGES

    assert marks_by_kind(shop.plan()) == {}
    waiting = waiting_plans(shop)
    shop.rounds.plan("shop", shop.policy, "round", compared)
    assert waiting_plans(shop) == waiting
    assert compared.count == 2 * PAGES  # the plan, and the one that awaits an approval

    plan = shop.rounds.plans.plan_for_operator("shop", shop.policy, "ann")
    shop.approve(plan.id)
    opened = shop.rounds.open("shop", "run", plan.id, shop.policy, applied)
    assert marks_by_kind(shop.rounds.plans.find_plan(plan.id)) == {"dropped": MARKS}
    assert opened.may_delete
    assert applied.count == PAGES
    assert kind_plan(plan, "dropped").shards == ()  # a small kind is not divided


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


KINDS = MOST_KINDS + MOST_COUNTED + 80


def test_few_of_many_kinds_are_listed_and_none_is_missed(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    with rig.db.write() as c:
        for n in range(KINDS):
            contract.mark(c, "shop", f"a{n:05}", [NewMark(id="x", vault="disk", keys=("x",))])
        contract.mark(c, "shop", "dropped", [NewMark(id="x", vault="disk", keys=("x",))])
    rig.later(10_801)

    plan = rig.plan()
    [status] = overview(rig.db, stores_of(rig.db).insight, rig.policy, 1).instances
    kept = [kept for kept in plan.kept if kept.reason is KeepReason.UNKNOWN_KIND]
    show_instance(status, "")
    figures = FigureStore(rig.db, stores_of(rig.db).insight, rig.policy, INTERVAL).read()

    assert [kind.kind for kind in plan.kinds] == ["dropped"]
    assert len(kept) == MOST_KINDS + 1
    assert sorted(kept)[0].subject.startswith("(and at least 1,0")
    assert [kind.kind for kind in status.kinds] == [*(f"a{n:05}" for n in range(MOST_KINDS)), "dropped"]
    assert f"and at least {status.more_kinds:,} more kinds" in capsys.readouterr().out
    assert set(figures.instances[0].kinds) == set(rig.policy.retention_seconds)
