"""A round obeys signals that arrive within a page, while it waits for its lease and while it backs off."""

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from sexton.kernel.errors import BadInput
from sexton.marks.sql.leases import LeaseStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from tests.support.door import Door, door_at
from tests.support.eventually import eventually_async, happened
from tests.support.rig import listing
from tests.workflows.conftest import Served, fill


@pytest.mark.slow
async def test_pause_and_resume_within_a_page_costs_only_a_lease(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    root = served.filled(shop, tmp_path, 500)

    with door_at("claim.committed") as door:
        handle = await served.start(shop)
        await happened(door.reached)
        await handle.signal("pause")
        await handle.query("progress")  # is answered after the workflow has seen the signal
        await handle.signal("resume")
        door.open()
        report = await handle.result()

    assert (report.state, report.removed) == ("SUCCEEDED", 500)
    assert listing(root) == {}


@pytest.mark.parametrize("signal", ["pause", "cancel"])
async def test_signal_during_a_refused_lease_attempt_is_obeyed(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: str
) -> None:
    root = served.filled(shop, tmp_path, 10)
    thief = served.rig.leases.acquire(shop, "recycle", "somebody")
    acquire, door = LeaseStore.acquire, Door()

    def at_door(self: LeaseStore, *given: Any) -> Any:
        door.come()
        return acquire(self, *given)

    handle = await served.start(shop)
    await served.waiting_reason(shop)
    monkeypatch.setattr(LeaseStore, "acquire", at_door)
    await happened(door.reached)
    await handle.signal(signal)
    door.open()
    if signal == "pause":
        await served.until(handle, lambda p: p.doing == "PAUSED")
        served.rig.leases.free(thief)
        await handle.signal("resume")
    report = await handle.result()

    assert report.state == ("SUCCEEDED" if signal == "pause" else "CANCELLED")
    assert len(listing(root)) == (0 if signal == "pause" else 10)
    assert served.rig.count("round", state="RUNNING") == 0


async def test_round_set_to_observe_while_paused_fails(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, 1_000)

    with door_at("claim.committed", visit=3) as door:
        handle = await served.start(shop)
        await happened(door.reached)
        await handle.signal("pause")
        door.open()
        await served.until(handle, lambda p: p.doing == "PAUSED")
        rig.registry.observe(shop)
        await handle.signal("resume")
        with pytest.raises(WorkflowFailureError):
            await handle.result()

    report = rig.rounds.reports.find_round(shop)[0]
    assert (report.state, report.observed, report.error) == ("FAILED", False, "the instance was set to observe")
    assert report.removed == 1_000 - len(listing(root)) > 0
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
