"""What was recorded while the clock was ahead hides no later take-over, and blocks nobody for long."""

from pathlib import Path

import pytest
from sqlalchemy import update

from sexton.contract import NewMark
from sexton.marks.sql.leases import may_be_deleting
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, is_undelete_safe, range_order, replaced_worker
from tests.support.rig import Rig


def test_undelete_waits_although_the_clock_was_ahead_once(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.mark("dropped", NewMark(id="old", vault="disk", keys=("old.dat",)))
    rig.later(DUE_SECONDS)
    rig.round()
    rig.set_year_ahead("batch", "taken_over_at")
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        assert rig.row("dropped", "m") is None
        assert not is_undelete_safe(rig, "a.dat")
    rig.later(38)

    assert is_undelete_safe(rig, "a.dat")


def test_a_take_over_of_the_future_is_over_with_the_next_round(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "v")
    rig.mark("dropped", NewMark(id="old", vault="disk", keys=("old.dat",)))
    rig.later(DUE_SECONDS)
    rig.round()
    with rig.db.write() as c:
        c.execute(update(rig.db.t.batch).values(taken_over_at=rig.db.now(c) + 3_600_000))
    rig.round()
    rig.later(3_010)  # the instant would be believed from now on

    assert is_undelete_safe(rig, "a.dat")


def test_a_lease_of_the_future_is_no_work(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "v")
    rig.rounds.open("shop", "a round", None, rig.policy)  # its worker was killed
    rig.set_year_ahead("lease", "expires_at")

    with rig.db.read() as c:
        assert not may_be_deleting(rig.db, c, "shop")
