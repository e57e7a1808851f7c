"""An owner that marks with any number of kinds makes no plan, status or metric longer."""

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.status import overview
from sexton.interfaces.cli.render.status import show_instance
from sexton.marks.keepers import KeepReason
from sexton.recycle.planning.sql.measure import MOST_COUNTED, MOST_KINDS
from tests.support.rig import INTERVAL, Rig, stores_of

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
    show_instance(status)
    figures = FigureStore(rig.db, stores_of(rig.db).insight, rig.policy, INTERVAL).read()

    assert [kind.kind for kind in plan.kinds] == ["dropped"]
    assert len(kept) == MOST_KINDS + 1
    assert sorted(kept)[0].subject.startswith("(and at least 1,0")
    assert [kind.kind for kind in status.kinds] == [*(f"a{n:05}" for n in range(MOST_KINDS)), "dropped"]
    assert f"and at least {status.more_kinds:,} more kinds" in capsys.readouterr().out
    assert set(figures.instances[0].kinds) == set(rig.policy.retention_seconds)
