"""Due instances get slots fairly; a round announces itself to all vaults in parallel and renews its lease meanwhile."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.insight.status import overview
from sexton.operators.controls.model import ControlKind, Halted
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds import recycler as announcer
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.rounds.sql.reports import RoundSchedule
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import GRACE, INTERVAL, Rig, listing, put, stores_of


def turns(rig: Rig, at_once: int = 16) -> RoundSchedule:
    return RoundSchedule(rig.db, rig.controls, INTERVAL, at_once)


def due(rig: Rig, at_once: int = 16) -> list[str]:
    return list(turns(rig, at_once).due().instances)


def overdue(rig: Rig, at_once: int = 16, only: str | None = None) -> dict[str, int]:
    statuses = overview(rig.db, stores_of(rig.db).insight, rig.policy, at_once, only).instances
    return {status.instance: status.overdue_since for status in statuses if status.overdue_since is not None}


class TestTurns:
    """Who is next."""

    def test_an_instance_is_due_once_an_interval(self, rig: Rig) -> None:
        first = due(rig)
        rig.round()
        ended = rig.rounds.reports.find_round("shop")[0]
        assert turns(rig).next_round("shop") == ended.started_at + INTERVAL * 1000
        then = due(rig)
        rig.later(INTERVAL - 300)
        before = due(rig)
        rig.later(301)

        assert (first, then, before, due(rig)) == (["shop"], [], [], ["shop"])
        rig.round()
        rig.set_year_ahead("instance", "turn_at")
        assert due(rig, 1) == ["shop"]
        rig.round()
        assert due(rig, 1) == []

    def test_a_failed_round_backs_off_and_a_lost_one_is_due(self, rig: Rig) -> None:
        opened = rig.rounds.open("shop", "lost", None, rig.policy)
        rig.leases.free(opened.lease)
        lost = due(rig)
        next_ = rig.rounds.open("shop", "failed", None, rig.policy)
        rig.rounds.close(CloseOrder(opened=next_, plan=None, outcome="FAILED", error="because"))
        failed = due(rig)
        rig.later(31)

        assert (lost, failed, due(rig)) == (["shop"], [], ["shop"])
        assert rig.instance_row().failures == 1
        rig.round()
        assert rig.instance_row().failures == 0

    def test_a_cancelled_round_is_followed_an_interval_later(self, rig: Rig) -> None:
        """The round took longer than its interval: an operator who ends it would see the next one at once."""
        opened = rig.rounds.open("shop", "long", None, rig.policy)
        rig.later(3 * INTERVAL)
        report = rig.rounds.close(CloseOrder(opened=opened, plan=None, outcome="CANCELLED", error="cancelled"))
        after, next_ = due(rig), turns(rig).next_round("shop")
        rig.later(INTERVAL)

        assert (after, due(rig), next_) == ([], ["shop"], (report.ended_at or 0) + INTERVAL * 1000)
        assert [row.state for row in rig.rounds.reports.rounds("shop")] == ["CANCELLED"]
        assert rig.rounds.reports.round(report.round).state == "CANCELLED"

    def test_a_round_that_nothing_begins_is_overdue(self, rig: Rig) -> None:
        added = rig.instance_row().created_at
        before = overdue(rig)
        rig.later(301)
        first = overdue(rig)
        rig.round()
        turn_at = rig.instance_row().turn_at
        rig.later(INTERVAL + 301)
        second = overdue(rig)
        no_slot = overdue(rig, at_once=0)
        opened = rig.rounds.open("shop", "paused", None, rig.policy)
        rig.rounds.release(opened, "paused")
        rig.later(INTERVAL + 301)
        paused = overdue(rig)
        rig.instance("a")
        rig.controls.put(ControlKind.STOP, "a")
        rig.later(301)

        assert (before, first, second) == ({}, {"shop": added}, {"shop": turn_at + INTERVAL * 1000})
        assert (no_slot, paused, overdue(rig)) == ({}, {}, {})

    def test_a_round_that_waits_for_a_slot_is_not_overdue(self, rig: Rig) -> None:
        rig.instance("a")
        rig.later(301)

        assert [overdue(rig, slots).keys() for slots in (1, 2)] == [{"a"}, {"a", "shop"}]
        assert [overdue(rig, 1, only).keys() for only in ("a", "shop")] == [{"a"}, set()]

    def test_the_longest_waiting_instances_get_the_free_slots(self, rig: Rig) -> None:
        for name in ("a", "b", "c"):
            rig.instance(name)
        rig.round("b")
        rig.round("a", after=10)
        rig.later(INTERVAL)
        rig.leases.acquire("c", "recycle", "somebody")

        assert due(rig) == ["shop", "b", "a"]
        assert [turns(rig, at_once).due().slots for at_once in (16, 3, 1)] == [15, 2, 0]
        assert due(rig, 1) == []

    def test_paused_rounds_are_scheduled_last(self, rig: Rig) -> None:
        rig.instance("a")
        opened = rig.rounds.open("a", "paused", None, rig.policy)
        rig.rounds.release(opened, "paused")
        rig.later(INTERVAL)

        assert due(rig) == ["shop", "a"]
        rig.round("a", after=10)  # the paused run was terminated: its row waits for nobody any more
        assert rig.count("round", waiting="paused") == 0

    def test_a_halted_instance_is_not_due(self, rig: Rig) -> None:
        rig.instance("a")
        rig.controls.put(ControlKind.BLACKLIST, "shop")

        assert due(rig) == ["a"]
        with pytest.raises(Halted):
            rig.round()
        assert rig.count("lease") == 0

    def test_the_time_of_success_moves_only_with_a_success(self, rig: Rig, root: Path) -> None:
        rig.drop(root, "a.dat", "a", later=10_801)
        (root / "_sexton" / "vault.json").rename(root / "moved")
        rig.round()
        faulty = rig.instance_row().last_success_at
        (root / "moved").rename(root / "_sexton" / "vault.json")
        report = rig.round()

        assert faulty is None
        assert rig.instance_row().last_success_at == report.ended_at


def test_r36_a_shorter_retention_makes_older_marks_due(rig: Rig, root: Path) -> None:
    put(root, "old.dat")
    put(root, "p/x.dat")
    rig.mark("orphan", NewMark(id="old", vault="disk", keys=("old.dat",)))
    rig.mark("dropped", NewMark(id="claimed", vault="disk", prefix="p/"))
    long = rig.round(after=10_801)
    second_pass_at = rig.row("dropped", "claimed").next_try_at

    rig.policy = policy({**rig.policy.retention_seconds, "orphan": 3_600, "dropped": 86_400}, GRACE)
    asks = rig.round()
    with rig.db.read() as c:
        [waiting] = rig.rounds.plans.approvals.waiting(c, "shop")
    short = rig.round(plan=waiting.id)
    again = rig.row("dropped", "claimed")
    rig.round(after=GRACE + 1)

    assert (long.claimed, asks.claimed, short.claimed) == (1, 0, 1)
    assert (again.state, again.next_try_at) == ("CLAIMED", second_pass_at)
    assert listing(root) == {}
    assert rig.count("mark") == 0


def test_silent_vaults_do_not_delay_the_others(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(7):
        rig.local(tmp_path / f"v{n}", f"v{n}")
    together, renewed = threading.Barrier(7), threading.Event()
    announce, renew = rig.vaults.announce, rig.leases.renew

    def silent(*given: Any) -> None:
        together.wait(PATIENCE_SECONDS)
        assert renewed.wait(PATIENCE_SECONDS)
        announce(*given)

    monkeypatch.setattr(announcer, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(rig.vaults, "announce", silent)
    monkeypatch.setattr(rig.leases, "renew", lambda lease: (renew(lease), renewed.set()))
    opened = rig.rounds.open("shop", "run", None, rig.policy)

    assert rig.recycler.announce(opened, lambda: None).excluded_vaults == {}
