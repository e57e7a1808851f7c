"""What a saboteur of the durable rounds found, each mended: holds, clocks, counts; on both databases."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from sexton.contract import NewMark
from sexton.database.counters import read_counters
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.marks.lease_port import LeaseBusy
from sexton.marks.model import Ref
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.port import NotEnabled
from sexton.operators.holds.store import Hold
from sexton.recycle.errors import PlanRefused, RoundEnded
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.sql import store
from sexton.recycle.rounds.sql.schedule import RoundSchedule
from tests.support.kept import kept_texts
from tests.support.rig import INTERVAL, Rig, listing, put

DAY = 86_400


def hold(kind: str, id_: str) -> Hold:
    return Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="an incident")


def mark(rig: Rig, root: Path, id_: str, parent: tuple[str, str] | None = None, kind: str = "dropped") -> None:
    put(root, f"{id_}.dat")
    rig.mark(kind, NewMark(id=id_, vault="disk", keys=(f"{id_}.dat",), parent=parent))


def counters(rig: Rig) -> dict[tuple[str, str], int]:
    with rig.db.read() as c:
        return {(name, label): n for (_, name, label), n in read_counters(rig.db, c).items()}


class TestHolds:
    """A hold reaches all below it, however far and however late."""

    def test_a_chain_of_ancestors_outlives_the_thirty_days_of_history(self, rig: Rig, tmp_path: Path) -> None:
        root = rig.local(tmp_path / "v")
        mark(rig, root, "i1", ("table", "t1"))
        rig.later(10_801)
        rig.round()
        mark(rig, root, "p1", ("dropped", "i1"))
        rig.later(10_801)
        rig.round()
        mark(rig, root, "r1", ("dropped", "p1"))
        placed, _ = rig.holds.place(hold("table", "t1"), 365 * DAY)
        rig.later(10_801)
        rig.round()
        rig.later(31 * DAY)

        rig.round()
        report = rig.round()

        assert kept_texts(report) == {f"hold {placed.id}": 1}
        assert list(listing(root)) == ["r1.dat"]
        rig.holds.release(placed.id)
        rig.round()
        rig.later(31 * DAY)
        for _ in range(4):
            rig.round()
        assert rig.count("mark_history") == 0  # a chain frees itself from below

    def test_a_hold_reaches_through_any_depth_and_a_circle_ends(self, rig: Rig, tmp_path: Path) -> None:
        root = rig.local(tmp_path / "v")
        for n in range(20):
            mark(rig, root, f"m{n}", ("dropped", f"m{n - 1}") if n else ("table", "top"))
        for one, other in (("a", "b"), ("b", "a")):
            mark(rig, root, one, ("dropped", other))
        placed, _ = rig.holds.place(hold("table", "top"), DAY)
        rig.later(10_801)

        report = rig.round()

        assert kept_texts(report) == {f"hold {placed.id}": 20}
        assert len(listing(root)) == 20

    def test_too_late_counts_grandchildren_and_is_no_refusal_while_something_is_left(
        self, rig: Rig, tmp_path: Path
    ) -> None:
        root = rig.local(tmp_path / "v")
        for id_, parent in (("child", "top"), ("grandchild", "child")):
            put(root, f"{id_}/x.dat")
            rig.mark("dropped", NewMark(id=id_, vault="disk", prefix=f"{id_}/", parent=("dropped", parent)))
        mark(rig, root, "top")
        rig.later(10_801)
        rig.round()
        mark(rig, root, "young", ("dropped", "top"))

        placed, late = rig.holds.place(hold("dropped", "top"), DAY)
        rig.later(10_801)

        assert late == 2
        assert kept_texts(rig.round()) == {f"hold {placed.id}": 3}  # the young one, and two prefixes at their last look
        assert "young.dat" in listing(root)


def test_after_observe_a_running_round_deletes_nothing_more(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.recycle.pipeline.active_lease.PROOF_SECONDS", 0.0)
    root = rig.local(tmp_path / "v")
    for n in range(5):
        mark(rig, root, f"m{n}")
    rig.later(10_801)

    def observe(name: str) -> None:
        if name == "claim.committed":
            rig.registry.observe("shop")

    with installed(observe), pytest.raises(NotEnabled):
        rig.round()

    assert len(listing(root)) == 5
    assert rig.count("mark", state="CLAIMED") == 5


class TestClocks:
    """The database's clock was ahead for a moment: turns and leases of that moment hold nobody up."""

    def ahead(self, rig: Rig, table: str, column: str) -> None:
        t = getattr(rig.db.t, table)
        with rig.db.write() as c:
            c.execute(update(t).values({column: rig.db.now(c) + 365 * DAY * 1000}))

    def test_a_turn_in_the_future_is_due(self, rig: Rig) -> None:
        rig.round()
        self.ahead(rig, "instance", "turn_at")
        turns = RoundSchedule(rig.db, rig.controls, INTERVAL, 1)

        assert turns.due().instances == ("shop",)
        rig.round()
        assert turns.due().instances == ()

    def test_a_lease_that_ends_too_late_holds_neither_its_instance_nor_a_slot(self, rig: Rig) -> None:
        leases = LeaseStore(rig.db, at_once=1)
        rig.instance("a")
        leases.acquire("shop", "recycle", "killed")
        self.ahead(rig, "lease", "expires_at")

        assert leases.acquire("a", "recycle", "next").epoch == 1
        leases.free(leases.acquire("a", "recycle", "next"))
        assert leases.acquire("shop", "recycle", "next").epoch == 2


class TestCounts:
    """What went is counted once, and by somebody."""

    def opened(self, rig: Rig, root: Path, marks: int = 5) -> CloseOrder:
        """Return the order to close a round that has deleted."""
        for n in range(marks):
            mark(rig, root, f"m{n}")
        rig.later(10_801)
        opened, plan = rig.rounds.open("shop", "run", None, rig.policy), rig.plan()
        ledger = Ledger()
        rig.recycle(opened, plan, plan.kinds[0], ledger)
        return ledger.close_order(opened, plan.id, plan, "FAILED", "because")

    def test_a_round_that_is_closed_twice_at_once_counts_once(
        self, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order = self.opened(rig, rig.local(tmp_path / "v"))
        build = store.build

        def slowly(*given: Any) -> Any:
            time.sleep(0.3)
            return build(*given)

        monkeypatch.setattr(store, "build", slowly)
        both = [threading.Thread(target=rig.rounds.close, args=(order,)) for _ in "12"]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()

        assert counters(rig)["removed", "dropped"] == 5
        assert counters(rig)["rounds", "*"] == 1
        assert rig.instance_row().failures == 1

    def test_what_a_terminated_round_deleted_is_told_by_its_own_report(self, rig: Rig, tmp_path: Path) -> None:
        order = self.opened(rig, rig.local(tmp_path / "v"))
        rig.leases.free(order.opened.lease)

        rig.round()

        _, cut_off = rig.rounds.reports.rounds("shop")
        assert cut_off.report is not None
        assert (cut_off.report.state, cut_off.report.removed, cut_off.report.deleted) == ("FAILED", 5, 5)
        assert "cut off" in cut_off.report.error
        assert counters(rig)["removed", "dropped"] == 5

    def test_a_round_that_has_ended_does_not_begin_again(self, rig: Rig) -> None:
        rig.round(run="reset")

        with pytest.raises(RoundEnded):
            rig.rounds.open("shop", "reset", None, rig.policy)
        assert rig.count("lease", state="BUSY") == 0

    def test_an_observing_round_is_no_success(self, rig: Rig) -> None:
        rig.registry.observe("shop")

        assert rig.round().observed
        assert rig.instance_row().last_success_at is None

    def test_what_a_discarded_mark_had_lost_already_is_counted(self, rig: Rig, tmp_path: Path) -> None:
        root = rig.local(tmp_path / "v")
        put(root, "a.dat")
        put(root, "dir/b.dat")
        rig.mark("dropped", NewMark(id="half", vault="disk", keys=("a.dat", "dir")))
        rig.later(10_801)
        for _ in range(8):
            rig.round()

        QuarantineStore(rig.db).discard("shop", Ref("dropped", "half"), "dir is a directory")

        assert rig.count("mark_history", objects=1, bytes=10) == 1
        with rig.db.read() as c:
            assert sum(c.execute(select(rig.db.t.tally.c.deleted)).scalars()) == 1


class TestPlans:
    """A plan of which nothing went may be applied again."""

    def test_a_stop_before_the_first_claim_gives_the_plan_back(self, rig: Rig, tmp_path: Path) -> None:
        mark(rig, rig.local(tmp_path / "v"), "m")
        rig.later(10_801)
        plan = rig.plan()
        opened = rig.rounds.open("shop", "first", plan.id, rig.policy)
        rig.rounds.close(CloseOrder(opened=opened, plan=plan.id, outcome="STOPPED", error="stopped"))

        assert rig.rounds.plans.approvals.state(plan.id) == "PLANNED"
        assert rig.round(plan=plan.id).removed == 1
        with pytest.raises(PlanRefused):
            rig.round(plan=plan.id)

    def test_a_round_called_off_before_it_had_a_lease_gives_its_plan_back(self, rig: Rig, tmp_path: Path) -> None:
        mark(rig, rig.local(tmp_path / "v"), "m")
        rig.later(10_801)
        plan = rig.plan()
        rig.leases.acquire("shop", "recycle", "somebody")
        with pytest.raises(LeaseBusy):
            rig.rounds.open("shop", "waits", plan.id, rig.policy)
        waiting = rig.rounds.reports.rounds("shop")[0].waiting

        rig.rounds.abandon("waits")

        assert waiting is not None
        assert waiting.startswith("waiting for its lease")
        assert rig.rounds.plans.approvals.state(plan.id) == "PLANNED"
        assert rig.count("round", state="RUNNING") == 0


def test_vaults_that_do_not_answer_do_not_cost_the_others_their_round(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(7):
        rig.local(tmp_path / f"v{n}", f"v{n}")
    renewed: list[float] = []
    announce, renew = rig.vaults.announce, rig.leases.renew

    def silent(*given: Any) -> None:
        time.sleep(1.0)
        announce(*given)

    monkeypatch.setattr(rig.vaults, "announce", silent)
    monkeypatch.setattr(rig.leases, "renew", lambda lease: (renewed.append(time.monotonic()), renew(lease)))
    opened = rig.rounds.open("shop", "run", None, rig.policy)
    began = time.monotonic()
    rig.recycler.announce(opened, lambda: None)

    assert renewed
    assert renewed[-1] - began < 7  # one after the other would take as long as there are vaults


def test_a_window_cannot_start_at_midnights_end(rig: Rig) -> None:
    with pytest.raises(BadInput, match="window"):
        rig.controls.put(ControlKind.WINDOW, "daily 24:00-06:00")
    assert rig.round().state == "SUCCEEDED"


def test_a_reason_that_is_no_text_is_refused(rig: Rig) -> None:
    with pytest.raises(BadInput, match="cannot be stored as text"):
        rig.controls.put(ControlKind.STOP, "shop", "\udcff")
    with pytest.raises(BadInput, match="cannot be stored as text"):
        rig.holds.place(Hold(instance="shop", scope="instance", reason="\udcff"), DAY)
    assert rig.controls.all() == ()
