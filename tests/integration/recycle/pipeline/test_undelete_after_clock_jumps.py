"""A take-over that was recorded while the clock was ahead does not hide the take-overs that follow."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, is_undelete_safe, range_order, replaced_worker
from tests.support.rig import Rig, put


def test_undelete_waits_although_the_clock_was_ahead_once(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rig.local(tmp_path / "v")
    rig.mark("dropped", NewMark(id="old", vault="disk", keys=("old.dat",)))
    rig.later(DUE_SECONDS)
    rig.round()
    rig.set_year_ahead("batch", "taken_over_at")
    put(root, "a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(DUE_SECONDS)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        assert rig.row("dropped", "m") is None
        assert not is_undelete_safe(rig, "a.dat")
    rig.later(38)

    assert is_undelete_safe(rig, "a.dat")
