"""A plan of an observing round stays applicable, and a waiting round records since when it waits."""

from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from sexton.recycle.rounds.sql.reports import Reports
from tests.servers.postgres import new_database
from tests.support.rig import Rig, put


def test_plan_of_an_observing_round_can_be_applied(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance(enable=False)
    put(rig.local(tmp_path / "v"), "a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    observed = rig.round()
    rig.registry.enable("shop")

    assert rig.round(plan=observed.plan).deleted == 1


def test_round_waits_for_its_lease_since_its_first_attempt(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    rig.rounds.open("shop", "first", None, rig.policy)
    for _ in range(2):
        with pytest.raises(Exception, match="is running"):
            rig.rounds.open("shop", "second", None, rig.policy)
        rig.later(5)

    with rig.db.read() as c:
        row = c.execute(select(rig.db.t.round).where(rig.db.t.round.c.run_id == "second")).one()
    assert (row.waiting_since, row.report) == (row.started_at, None)

    rig.rounds.abandon("second", "halted: stopped")

    [ended] = [r.report for r in Reports(rig.db).rounds("shop", last=1)]
    assert ended is not None
    assert ended.error == "ended before it had a lease: halted: stopped"
