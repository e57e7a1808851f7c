"""A plan's numbers leave out what holds block, name the holds, and call an estimate an estimate."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import ColumnElement, Connection

from sexton.contract import NewMark
from sexton.marks.kept import KeepReason, Kept
from sexton.marks.sql.prepared import PreparedKeeper
from sexton.operators.holds.keeper import HoldKeeper
from sexton.operators.holds.model import Hold
from sexton.recycle.planning.model import MarkSums
from sexton.recycle.planning.sql.plans import PlanStore
from tests.support.command import run
from tests.support.planned import DAY, Limited, kind_plan, limited_policy, waiting_plans
from tests.support.rig import Rig, put

DUE_SECONDS = 10_801


@pytest.fixture
def shop(shop: Limited) -> Limited:
    """Two tables with three marks each: one of two keys, a prefix, and a child of the prefix's mark."""
    for table in ("clicks", "users"):
        parent = ("table", table)
        keys = tuple(f"{table}/{n}.dat" for n in range(2))
        shop.mark(
            "dropped",
            NewMark(id=f"{table}-keys", vault="disk", keys=keys, bytes=20, parent=parent),
            NewMark(id=f"{table}-prefix", vault="disk", prefix=f"{table}/p/", bytes=5, parent=parent),
            NewMark(id=f"{table}-child", vault="disk", keys=(f"{table}/c",), parent=("dropped", f"{table}-prefix")),
        )
    shop.later(DUE_SECONDS)
    return shop


HOLDS = {
    "table": Hold(instance="shop", scope="mark", mark_kind="table", mark_id="clicks", reason="x"),
    "mark": Hold(instance="shop", scope="mark", mark_kind="dropped", mark_id="clicks-prefix", reason="x"),
    "prefix": Hold(instance="shop", scope="prefix", vault="disk", prefix="clicks/", reason="x"),
    "prefix of a key": Hold(instance="shop", scope="prefix", vault="disk", prefix="clicks/1", reason="x"),
    "instance": Hold(instance="shop", scope="instance", reason="x"),
}
NOTHING = MarkSums()
EVERYTHING = MarkSums(marks=6, keys=6, prefixes=2, objects=26, bytes=50)
ONE_TABLE = MarkSums(marks=3, keys=3, prefixes=1, objects=13, bytes=25)


HELD: list[tuple[tuple[str, ...], tuple[int, ...], MarkSums]] = [
    ((), (), EVERYTHING),
    (("table",), (3,), ONE_TABLE),
    (("mark",), (2,), MarkSums(marks=4, keys=5, prefixes=1, objects=15, bytes=45)),
    (("prefix",), (3,), ONE_TABLE),
    (("prefix of a key",), (1,), MarkSums(marks=5, keys=4, prefixes=2, objects=24, bytes=30)),
    (("instance",), (6,), NOTHING),
    (("mark", "table"), (2, 1), ONE_TABLE),
    (("prefix of a key", "table"), (1, 2), ONE_TABLE),
    (("table", "mark"), (3,), ONE_TABLE),
]
"""Names of holds, how many marks each blocks, and the sums of the marks that are left."""


def test_holds_are_deducted_and_named(shop: Limited, tmp_path: Path, subtests: pytest.Subtests) -> None:
    shop.local(tmp_path / "v")
    for names, held, unheld in HELD:
        with subtests.test(holds=names):
            holds = [shop.holds.place(HOLDS[name], DAY)[0] for name in names]

            planned = kind_plan(shop.plan_as_operator(), "dropped")

            assert (planned.marks, planned.unheld) == (6, unheld)
            assert [(part.kept, part.marks) for part in planned.held] == [
                (hold.kept, marks) for hold, marks in zip(holds, held, strict=False)
            ]
            if names == ("prefix of a key",):
                counted = [mark.id for page in shop.rounds.plans.unheld_marks("shop", planned) for mark in page]
                assert sorted(counted) == ["clicks-child", "clicks-prefix", "users-child", "users-keys", "users-prefix"]
            for hold in holds:
                shop.holds.release(hold.id)


def test_a_mark_without_parent_or_vault_is_under_no_hold(rig: Rig, root: Path) -> None:
    rig.mark(
        "dropped",
        NewMark(id="alone", vault="disk", keys=("a",)),
        NewMark(id="nothing", vault=None, parent=("table", "t")),
    )
    rig.later(DUE_SECONDS)
    for name in ("table", "prefix", "instance"):
        rig.holds.place(HOLDS[name], DAY)

    (planned,) = rig.plan().kinds

    assert [held.marks for held in planned.held] == [2]  # by the instance's hold: none before it blocks them


class Freeze(PreparedKeeper):
    """A keeper that blocks all marks of one table."""

    def foreseen(self, _c: Connection, instance: str) -> Mapping[Kept, ColumnElement[bool]]:
        return {Kept(KeepReason.OTHER, "a freeze"): self._db.t.mark.c.parent_id == "users"}


def test_plans_deduct_what_any_keeper_foresees(shop: Limited) -> None:
    shop.holds.place(HOLDS["mark"], DAY)
    keepers = (HoldKeeper(shop.db), Freeze(shop.db))

    planned = kind_plan(PlanStore(shop.db, keepers).plan_for_operator("shop", shop.policy, "ann"), "dropped")

    assert [(part.kept.reason, part.marks) for part in planned.held] == [(KeepReason.HOLD, 2), (KeepReason.OTHER, 2)]
    assert planned.unheld.marks == 2


def test_held_objects_need_no_approval(shop: Limited) -> None:
    shop.policy = limited_policy(objects=20)
    over = shop.plan()
    shop.holds.place(HOLDS["table"], DAY)
    within = shop.plan()

    assert (over.marks, within.marks, waiting_plans(shop)) == (0, 6, [])


def test_the_command_names_holds_and_counts_on_request(
    shop: Limited, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = shop.local(tmp_path / "v")
    for n in range(40):
        put(root, f"users/p/{n}.dat")
    hold, _ = shop.holds.place(HOLDS["table"], DAY)

    shown = run(shop, capsys, "plan", "shop")
    counted = run(shop, capsys, "plan", "shop", "--count")
    as_json = json.loads(run(shop, capsys, "plan", "shop", "--count", "--json").out)

    assert (shown.code, counted.code) == (2, 2)
    assert f"kept: 3 by {hold.kept}" in shown.out
    assert "~13" in shown.out
    assert "~ is an estimate" in shown.out
    assert "sexton plan shop --count" in shown.out
    assert ("~ is" in counted.out, " 43 " in counted.out, "kept: 3 by hold " in counted.out) == (False, True, True)
    assert as_json["estimate"]["objects"] == 43


def test_an_empty_plan_is_not_stored_and_names_a_time(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = run(rig, capsys, "plan", "shop")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("m",)))
    rig.mark("orphan", NewMark(id="o", vault="disk", keys=("o",)))
    row = rig.row("dropped", "m")
    planned = run(rig, capsys, "plan", "shop")
    status = json.loads(run(rig, capsys, "status", "--json").out)
    report = rig.round()

    [due] = [k["next_due_at"] for k in status["instances"][0]["kinds"] if k["kind"] == "dropped"]
    assert (nothing.code, planned.code, rig.count("plan")) == (0, 0, 0)
    assert "no mark waits" in nothing.out
    assert "nothing new is due; the next mark (dropped) is due at " in planned.out
    assert (due - row.marked_at, report.plan, report.state) == (10_800_000, None, "SUCCEEDED")
