"""Rounds run on a real Temporal server, and respect what an operator sets in the database meanwhile."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError

from config import live
from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from sexton.recycle.planning import policy
from tests.support.eventually import PATIENCE_SECONDS, eventually, happened
from tests.support.rig import listing, put
from tests.workflows.conftest import Served


async def test_plan_is_applied_once_and_deletes_nothing_younger(served: Served, shop: str, tmp_path: Path) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    put(root, "a.dat")
    put(root, "b.dat")
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)), instance=shop)
    rig.later(5_000)
    rig.mark("dropped", NewMark(id="b", vault="disk", keys=("b.dat",)), instance=shop)
    rig.later(5_801)
    plan = rig.plan(shop)
    rig.later(10_000)

    report = await served.round(shop, plan.id)

    assert (report.due, report.deleted) == (1, 1)
    assert listing(root) == {"b.dat": 10}
    with pytest.raises(WorkflowFailureError) as refused:
        await served.round(shop, plan.id)
    activity = refused.value.cause
    assert isinstance(activity, ActivityError)
    assert isinstance(activity.cause, ApplicationError)
    assert activity.cause.type == "PlanRefused"
    assert rig.leases.acquire(shop, "recycle", "next").epoch == 2


@pytest.mark.slow
async def test_shards_of_one_kind_are_deleted_beside_each_other(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "SHARD_OBJECTS", 10)
    rig, root = served.rig, served.filled(shop, tmp_path, 40)
    both_resolved = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    def visit(point: str) -> None:
        if point == "resolve.stored":
            both_resolved.wait()  # 4 shards resolve once each: two pairs

    with installed(visit):
        report = await served.round(shop)

    assert listing(root) == {}
    assert (report.state, report.deleted, report.removed, report.scanned) == ("SUCCEEDED", 40, 40, 40)
    assert rig.count("batch", instance=shop, kind="dropped", state="DONE") == 4


async def test_one_kind_that_fails_does_not_stop_another(served: Served, shop: str, tmp_path: Path) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    put(root, "a.dat")
    put(root, "dir/b.dat")
    rig.mark("compacted", NewMark(id="a", vault="disk", keys=("a.dat",)), instance=shop)
    rig.mark("dropped", NewMark(id="dir", vault="disk", keys=("dir",)), instance=shop)
    rig.later(10_801)

    report = await served.round(shop)

    assert listing(root) == {"dir/b.dat": 10}
    assert (report.deleted, report.failed, report.waiting) == (1, 1, 1)


@pytest.mark.slow
async def test_round_takes_a_new_lease_after_expiry_and_finishes(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 500)
    away = iter([61])

    with installed(lambda name: rig.later(next(away, 0)) if name == "claim.committed" else None):
        report = await served.round(shop)

    assert (report.state, report.claimed, report.removed, report.deleted) == ("SUCCEEDED", 500, 500, 500)
    assert listing(root) == {}
    assert rig.leases.acquire(shop, "recycle", "next").epoch == 3


@pytest.mark.slow
async def test_cancelled_round_frees_its_lease(served: Served, shop: str, tmp_path: Path, small_ranges: None) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 500)
    claimed = threading.Event()

    def until_told(name: str) -> None:
        if name == "claim.committed" and not claimed.is_set():
            claimed.set()
            eventually("the activity is told of the cancel", activity.is_cancelled)

    with installed(until_told):
        handle = await served.start(shop)
        await happened(claimed)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as ended:
            await handle.result()

    assert isinstance(ended.value.cause, CancelledError)
    assert rig.count("lease", instance=shop, state="BUSY") == 0
    cancelled = rig.rounds.reports.find_round(shop)[0]
    assert (cancelled.state, cancelled.error) == ("CANCELLED", "cancelled")
    assert cancelled.claimed < 500
    report = await served.round(shop)
    assert report.removed + cancelled.removed == 500
    assert listing(root) == {}


async def test_cancel_at_the_end_of_an_activity_stops_the_round(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    root = served.filled(shop, tmp_path, 500)

    async with served.held(shop) as (handle, door):
        await handle.cancel()
        door.open()
        with pytest.raises(WorkflowFailureError):
            await handle.result()

    assert len(listing(root)) >= 250


RETENTION = "recycle.dropped_partition_retention_seconds"


@pytest.mark.slow
async def test_raised_retention_protects_within_a_round(
    served: Served, shop: str, tmp_path: Path, small_ranges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = served.filled(shop, tmp_path, 300)
    store, clock = served.rig.all_stores.setting_rows, SimpleNamespace(monotonic=lambda: now)
    now = 1_000.0
    monkeypatch.setattr(live, "time", clock)

    def raise_once(point: str) -> None:
        nonlocal now
        if point == "files.deleted" and not store.all():
            store.put(RETENTION, "864000", shop)
            now += live.MAX_AGE_SECONDS

    with installed(raise_once):
        report = await served.round(shop)
    kept = sum(1 for _ in (root / "dropped").iterdir())
    store.remove(RETENTION, shop)
    now += live.MAX_AGE_SECONDS
    next_report = await served.round(shop)

    assert (report.state, report.deleted, kept) == ("SUCCEEDED", 100, 200)
    assert next_report.deleted == 200
