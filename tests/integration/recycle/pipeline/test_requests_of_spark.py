"""An attempt on Spark that finishes what an older one claimed leaves requests too: Spark may run a task twice."""

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sexton.kernel import crash_points
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.settle import Finisher
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, is_undelete_safe, range_order
from tests.support.rig import Rig


class Died(BaseException):
    """The Spark worker of the first attempt was killed."""


def die_after_claim(point: str) -> None:
    if point == "claim.committed":
        raise Died


def test_undelete_waits_for_tasks_of_a_take_over_on_spark(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.drop(rig.local(tmp_path / "v"), "a.dat", "m")
    monkeypatch.setattr(ThreadDeleter, "leaves_requests", True)  # as Spark's
    rig.later(DUE_SECONDS)
    order = range_order(rig)
    with crash_points.installed(die_after_claim), suppress(Died):
        rig.recycler.recycle(order, 1, lambda: None)
    drop_unclaimed, settled = Finisher.drop_unclaimed, threading.Event()

    def take_over_slowly(finisher: Finisher, work: object) -> None:
        drop_unclaimed(finisher, work)  # type: ignore[arg-type]
        rig.later(38)  # earlier jobs of this take-over took so long

    def undelete_while_settling(point: str) -> None:
        if point == "marks.removed" and not settled.is_set():
            settled.set()
            assert rig.row("dropped", "m") is None
            assert not is_undelete_safe(rig, "a.dat")

    monkeypatch.setattr(Finisher, "drop_unclaimed", take_over_slowly)
    with crash_points.installed(undelete_while_settling):
        rig.recycler.recycle(order, 2, lambda: None)

    assert settled.is_set()
