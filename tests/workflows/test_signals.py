"""An operator can cancel, pause, resume, retry and stop a round at any moment, and see its progress."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError

from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.model import ControlKind
from sexton.recycle.pipeline.sql.claim import ClaimStore
from tests.support.door import Door
from tests.support.eventually import eventually_async, happened
from tests.support.rig import listing
from tests.workflows.conftest import Served, at_rest
from workflows import ids

pytestmark = pytest.mark.slow


def failing(broken: threading.Event) -> Callable[[str], None]:
    def visit(name: str) -> None:
        if name == "resolve.stored" and broken.is_set():
            raise BadInput("the disk of the test is broken")

    return visit


async def test_a_cancel_signal_ends_the_round_with_a_report(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    root = served.filled(shop, tmp_path, 500)

    async with served.held(shop) as (handle, door):
        await handle.signal("cancel")
        door.open()
        report = await handle.result()

    assert (report.state, report.error) == ("CANCELLED", "cancelled")
    assert 0 < report.claimed < 500
    assert served.rig.count("lease", instance=shop, state="BUSY") == 0
    after = await served.round(shop)
    assert report.removed + after.removed == 500
    assert listing(root) == {}


async def test_paused_round_has_no_lease_and_deletes_nothing(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    root = served.filled(shop, tmp_path, 500)

    async with served.held(shop) as (handle, door):
        await handle.signal("pause")
        await handle.signal("pause")
        door.open()
        paused = await served.until(handle, lambda p: p.doing == "PAUSED")
        await served.lease_freed(shop)
        await at_rest(handle)
        left = listing(root)
        row = served.rig.rounds.reports.rounds(shop)[0]
        busy = served.rig.count("lease", instance=shop, state="BUSY")
        await handle.signal("resume")
        report = await handle.result()

    assert 0 < len(left) < 500
    assert (busy, row.waiting) == (0, "paused")
    assert paused.round == report.round
    assert (report.state, report.claimed, report.removed, report.leases) == ("SUCCEEDED", 500, 500, 2)
    assert served.rig.rounds.reports.rounds(shop)[0].waiting is None
    assert served.rig.leases.acquire(shop, "recycle", "next").epoch == 3
    assert listing(root) == {}


async def test_retry_ends_a_backoff_that_has_no_lease(served: Served, shop: str, tmp_path: Path) -> None:
    served.filled(shop, tmp_path, 10)
    broken = threading.Event()
    broken.set()

    with installed(failing(broken)):
        handle = await served.start(shop)
        waiting = await served.until(handle, lambda p: p.doing == "BACKING_OFF")
        await served.lease_freed(shop)
        busy = served.rig.count("lease", instance=shop, state="BUSY")
        broken.clear()
        await handle.signal("retry")
        report = await handle.result()
    history = await handle.fetch_history()

    assert "the disk of the test is broken" in waiting.error
    assert (waiting.backoff_seconds, waiting.tries, busy) == (10.0, 1, 0)
    assert (report.state, report.removed, report.error) == ("SUCCEEDED", 10, "")
    assert not [e for e in history.events if e.HasField("timer_fired_event_attributes")]


async def test_persistently_failing_kind_fails_the_round(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = served.filled(shop, tmp_path, 10)
    broken = threading.Event()
    broken.set()

    with installed(failing(broken)):
        handle = await served.start(shop)
        for tries in range(1, 6):
            await served.until(handle, lambda p, tries=tries: (p.doing, p.tries) == ("BACKING_OFF", tries))
            await handle.signal("retry")
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    report = served.rig.rounds.reports.find_round(shop)[0]
    assert isinstance(failed.value.cause, ApplicationError)
    assert (failed.value.cause.type, *failed.value.cause.details) == (ids.ROUND_FAILED, report.round)
    assert (report.state, report.leases, report.removed) == ("FAILED", 6, 0)
    assert [k.error for k in report.kinds] == ["the disk of the test is broken"]
    row = served.rig.instance_row(shop)
    assert row.failures == 1
    assert row.retry_at - report.ended_at == 30_000
    assert len(listing(root)) == 10


async def test_a_round_that_waits_for_a_slot_can_be_cancelled(served: Served, shop: str, tmp_path: Path) -> None:
    root = served.filled(shop, tmp_path, 10)
    served.rig.leases.acquire(shop, "recycle", "somebody")

    handle = await served.start(shop)
    await served.until(handle, lambda p: p.doing == "WAITING")
    await served.waiting_reason(shop)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as ended:
        await handle.result()

    assert isinstance(ended.value.cause, CancelledError)
    (round_,) = served.rig.rounds.reports.rounds(shop)
    assert round_.report is not None
    assert (round_.report.state, round_.waiting) == ("CANCELLED", None)
    assert len(listing(root)) == 10


async def test_plan_stopped_before_its_lease_can_be_applied_again(served: Served, shop: str, tmp_path: Path) -> None:
    root = served.filled(shop, tmp_path, 10)
    plan = served.rig.plan(shop).id
    somebody = served.rig.leases.acquire(shop, "recycle", "somebody")

    handle = await served.start(shop, plan)
    await served.waiting_reason(shop)
    served.rig.controls.put(ControlKind.STOP, shop, "a test", "the tester")
    with pytest.raises(WorkflowFailureError) as refused:
        await handle.result()

    assert "stopped by the tester: a test" in str(refused.value.cause.cause)  # type: ignore[union-attr]
    (round_,) = served.rig.rounds.reports.rounds(shop)
    assert round_.report is not None
    assert "ended before it had a lease" in round_.report.error
    served.rig.controls.remove(ControlKind.STOP, shop)
    served.rig.leases.free(somebody)
    assert (await served.round(shop, plan)).removed == 10
    assert listing(root) == {}


async def test_stop_ends_the_round_and_start_allows_the_next_one(
    served: Served, shop: str, tmp_path: Path, small_ranges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.recycle.pipeline.active_lease.RENEW_SECONDS", 0.2)
    root = served.filled(shop, tmp_path, 500)

    async with served.held(shop) as (handle, door):
        served.rig.controls.put(ControlKind.STOP, "*", "a test", "the tester")
        door.open()
        report = await handle.result()

    assert report.state == "STOPPED"
    assert "everything is stopped by the tester: a test" in report.error
    assert 0 < report.claimed < 500
    with pytest.raises(WorkflowFailureError) as refused:
        await served.round(shop)
    assert "sexton start --all" in str(refused.value.cause.cause)  # type: ignore[union-attr]
    served.rig.controls.remove(ControlKind.STOP, "*")
    after = await served.round(shop)
    assert report.removed + after.removed == 500
    assert listing(root) == {}


async def test_progress_reports_each_kind(served: Served, shop: str, tmp_path: Path, small_ranges: None) -> None:
    served.filled(shop, tmp_path, 500)

    async with served.held(shop, visit=3) as (handle, door):
        progress = await served.until(handle, lambda p: bool(p.kinds) and p.kinds[0].objects >= 200)
        door.open()
        report = await handle.result()
    ended = await served.until(handle, lambda p: p.doing == "ENDED")

    (kind,) = progress.kinds
    assert (progress.doing, progress.instance, progress.round, progress.plan) == (
        "RECYCLING",
        shop,
        report.round,
        report.plan,
    )
    assert (kind.kind, kind.due, kind.finished) == ("dropped", 500, False)
    assert (
        kind.scanned == kind.claimed == kind.removed == kind.objects == sum(shard.ranges for shard in kind.shards) * 100
    )
    assert kind.objects_per_second
    assert kind.seconds_left
    assert (ended.kinds[0].objects, ended.kinds[0].finished) == (500, True)
    assert [(k.kind, k.due, k.removed, k.deleted) for k in report.kinds] == [("dropped", 500, 500, 500)]


async def test_pause_and_resume_within_a_page_costs_only_a_lease(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    root = served.filled(shop, tmp_path, 500)

    async with served.held(shop) as (handle, door):
        await handle.signal("pause")
        await handle.query("progress")  # is answered after the workflow has seen the signal
        await handle.signal("resume")
        door.open()
        report = await handle.result()

    assert (report.state, report.removed) == ("SUCCEEDED", 500)
    assert listing(root) == {}


async def test_signal_during_a_refused_lease_attempt_is_obeyed(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = LeaseStore.acquire
    for signal, state, left in (("pause", "SUCCEEDED", 0), ("cancel", "CANCELLED", 10)):
        name, door = f"{shop}-{signal}", Door()
        root = served.filled(name, tmp_path / signal, 10)
        thief = served.rig.leases.acquire(name, "recycle", "somebody")

        def at_door(self: LeaseStore, *given: Any, door: Door = door) -> Any:
            door.come()
            return acquire(self, *given)

        handle = await served.start(name)
        await served.waiting_reason(name)
        with monkeypatch.context() as m:
            m.setattr(LeaseStore, "acquire", at_door)
            await happened(door.reached)
            await handle.signal(signal)
            door.open()
        if signal == "pause":
            await served.until(handle, lambda p: p.doing == "PAUSED")
            served.rig.leases.free(thief)
            await handle.signal("resume")
        report = await handle.result()

        assert (report.state, len(listing(root))) == (state, left)
        assert served.rig.count("round", instance=name, state="RUNNING") == 0


async def test_round_set_to_observe_while_paused_fails(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 500)

    async with served.held(shop, visit=3) as (handle, door):
        await handle.signal("pause")
        door.open()
        await served.until(handle, lambda p: p.doing == "PAUSED")
        rig.registry.observe(shop)
        await handle.signal("resume")
        with pytest.raises(WorkflowFailureError):
            await handle.result()

    report = rig.rounds.reports.find_round(shop)[0]
    assert (report.state, report.observed, report.error) == ("FAILED", False, "the instance was set to observe")
    # The last files may be gone before their marks.
    assert report.deleted == 500 - len(listing(root)) >= report.removed > 0
    assert rig.instance_row(shop).last_success_at is None
    assert rig.count("counter", instance=shop, name="removed", value=report.removed) == 1


async def test_round_paused_during_a_backoff_reports_the_pause(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.filled(shop, tmp_path, 10)

    def broken(self: ClaimStore, *given: Any) -> Any:
        raise BadInput("broken for the test")

    monkeypatch.setattr(ClaimStore, "claim", broken)
    handle = await served.start(shop)
    await served.until(handle, lambda p: p.doing == "BACKING_OFF")
    before = await served.waiting_reason(shop)
    await handle.signal("pause")
    paused = await eventually_async(
        "the round waits for another reason", lambda: served.waiting_reason(shop), lambda reason: reason != before
    )
    await handle.signal("cancel")
    report = await handle.result()

    assert before.startswith("backing off for 10 s")
    assert paused == "paused"
    assert report.state == "CANCELLED"
    assert served.rig.count("round", state="RUNNING") == 0
