"""A round is closed once: its counts are stored once, and a plan that deleted nothing may be applied again."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.marks.lease import LeaseBusy
from sexton.recycle.errors import PlanRefused, RoundEnded
from sexton.recycle.pipeline.sql.batches import add_to_round
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.rounds.sql import store
from sexton.recycle.rounds.sql.reports import read_counters
from tests.support.locks import wait_for_lock_waiter
from tests.support.rig import Rig, put


def mark(rig: Rig, root: Path, id_: str, parent: tuple[str, str] | None = None, kind: str = "dropped") -> None:
    put(root, f"{id_}.dat")
    rig.mark(kind, NewMark(id=id_, vault="disk", keys=(f"{id_}.dat",), parent=parent))


def counters(rig: Rig) -> dict[tuple[str, str], int]:
    with rig.db.read() as c:
        return {(name, label): n for (_, name, label), n in read_counters(rig.db, c).items()}


def deleted_round(rig: Rig, root: Path, marks: int = 5) -> CloseOrder:
    """Return the order to close a round that has deleted."""
    for n in range(marks):
        mark(rig, root, f"m{n}")
    rig.later(10_801)
    opened, plan = rig.rounds.open("shop", "run", None, rig.policy), rig.plan()
    ledger = Ledger()
    rig.recycle(opened, plan, plan.kinds[0], ledger)
    return ledger.close_order(opened, plan.id, plan, "FAILED", "because")


def test_two_concurrent_closes_of_a_round_count_once(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = deleted_round(rig, rig.local(tmp_path / "v"))
    build, first = store.build, threading.Lock()

    def when_the_other_waits(*given: Any) -> Any:
        if first.acquire(blocking=False):
            wait_for_lock_waiter(rig.db)
        return build(*given)

    monkeypatch.setattr(store, "build", when_the_other_waits)
    both = [threading.Thread(target=rig.rounds.close, args=(order,)) for _ in "12"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    assert counters(rig)["removed", "dropped"] == 5
    assert counters(rig)["rounds", "*"] == 1
    assert rig.instance_row().failures == 1


def test_a_page_under_way_at_the_end_is_counted(rig: Rig, tmp_path: Path) -> None:
    """Else a counter that metrics show with the counts of running rounds would fall at the end of a round."""
    order = deleted_round(rig, rig.local(tmp_path / "v"))
    ending = threading.Thread(target=rig.rounds.close, args=(order,))
    with rig.db.write() as tx:
        add_to_round(rig.db, tx, order.opened.round, {("dropped", "disk"): {"removed": 1}})
        ending.start()
        wait_for_lock_waiter(rig.db)
    during = counters(rig)["removed", "dropped"]
    ending.join()

    assert (during, counters(rig)["removed", "dropped"]) == (6, 6)


def test_a_terminated_round_reports_its_own_deletions(rig: Rig, tmp_path: Path) -> None:
    order = deleted_round(rig, rig.local(tmp_path / "v"))
    rig.leases.free(order.opened.lease)

    rig.round()

    _, cut_off = rig.rounds.reports.rounds("shop")
    assert cut_off.report is not None
    assert (cut_off.report.state, cut_off.report.removed, cut_off.report.deleted) == ("FAILED", 5, 5)
    assert "cut off" in cut_off.report.error
    assert counters(rig)["removed", "dropped"] == 5


def test_an_ended_round_cannot_be_opened_again(rig: Rig) -> None:
    rig.round(run="reset")

    with pytest.raises(RoundEnded):
        rig.rounds.open("shop", "reset", None, rig.policy)
    assert rig.count("lease", state="BUSY") == 0


def test_an_observing_round_does_not_count_as_success(rig: Rig) -> None:
    rig.registry.observe("shop")

    assert rig.round().observed
    assert rig.instance_row().last_success_at is None


def test_a_stop_before_the_first_claim_returns_the_plan(rig: Rig, tmp_path: Path) -> None:
    mark(rig, rig.local(tmp_path / "v"), "m")
    rig.later(10_801)
    plan = rig.plan()
    rig.approve(plan.id)
    opened = rig.rounds.open("shop", "first", plan.id, rig.policy)
    rig.rounds.close(CloseOrder(opened=opened, plan=plan.id, outcome="STOPPED", error="stopped"))

    assert rig.rounds.plans.approvals.state(plan.id) == "PLANNED"
    assert rig.round(plan=plan.id).removed == 1
    with pytest.raises(PlanRefused):
        rig.round(plan=plan.id)


def test_a_round_abandoned_before_its_lease_returns_its_plan(rig: Rig, tmp_path: Path) -> None:
    mark(rig, rig.local(tmp_path / "v"), "m")
    rig.later(10_801)
    plan = rig.plan()
    rig.leases.acquire("shop", "recycle", "somebody")
    rig.approve(plan.id)
    with pytest.raises(LeaseBusy):
        rig.rounds.open("shop", "waits", plan.id, rig.policy)
    waiting = rig.rounds.reports.rounds("shop")[0].waiting

    rig.rounds.abandon("waits")

    assert waiting is not None
    assert waiting.startswith("waiting for its lease")
    assert rig.rounds.plans.approvals.state(plan.id) == "PLANNED"
    assert rig.count("round", state="RUNNING") == 0
