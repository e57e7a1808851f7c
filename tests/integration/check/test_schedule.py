"""Which instances are due for a check."""

from pathlib import Path

from sqlalchemy import insert

from sexton.check.model import RunState
from sexton.check.sql.store import CheckSchedule
from tests.support.rig import Rig


def test_check_cut_off_while_the_clock_was_ahead_is_due(rig: Rig, tmp_path: Path) -> None:
    """Else its row would count as a check that runs, until that time comes."""
    rig.local(tmp_path / "v")
    schedule = CheckSchedule(rig.db, 86_400)
    with rig.db.write() as c:
        run = {"instance": "shop", "run": "r", "state": RunState.RUNNING, "cutoff": rig.db.now(c)}
        c.execute(insert(rig.db.t.check_run).values(**run))
    running = schedule.due()
    rig.set_year_ahead("check_run", "cutoff")

    assert (running, schedule.due()) == ((), ("shop",))
