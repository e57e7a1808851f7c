"""Terminate, reset and pause in the Temporal UI lose nothing."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    ResetWorkflowExecutionRequest,
    UnpauseActivityRequest,
)

from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from sexton.recycle.pipeline import ranges
from sexton.recycle.rounds.recycler import Recycler
from tests.support.eventually import eventually, eventually_async, happened
from tests.support.rig import Rig, listing, put
from tests.workflows.conftest import Served

MARKS = 600
PAUSED = PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED


pytestmark = pytest.mark.usefixtures("small_ranges")


def filled(served: Served, shop: str, folder: Path) -> Path:
    """Make due marks, half by key, half by prefix, and one object that is needed; return the root of the vault."""
    rig = served.rig.instance(shop)
    root = rig.local(folder / "v", instance=shop)
    put(root, "live.dat")
    for n in range(MARKS):
        put(root, f"{n % 2}/{n}/x.dat", 1)
    names = {0: "keys", 1: "prefix"}
    rig.mark(
        "dropped",
        *(
            NewMark(id=f"t{n}", vault="disk", **{names[n % 2]: (f"0/{n}/x.dat",) if n % 2 == 0 else f"1/{n}/"})
            for n in range(MARKS)
        ),
        instance=shop,
    )
    rig.later(10_801)
    return root


def settled(rig: Rig, shop: str, root: Path) -> None:
    """Everything went once, and only what was marked."""
    assert listing(root) == {"live.dat": 10}
    assert rig.count("mark", instance=shop) == 0
    assert rig.count("mark_history", instance=shop) == MARKS
    # A run that was terminated reports nothing, so the sum may be less; an object counted twice would make it more.
    assert sum(r.report.deleted for r in rig.rounds.reports.rounds(shop) if r.report) <= MARKS


async def finish(served: Served, shop: str) -> None:
    """Two clean rounds: what is left, and the last look at prefixes."""
    await served.round(shop)
    served.rig.later(3_601)
    await served.round(shop)


@pytest.mark.slow
async def test_r50_terminate_soon_ends_deletes_and_next_round_finishes(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, root = served.rig, filled(served, shop, tmp_path)
    at_work = Counter[str]()
    recycle = Recycler.recycle

    def counted(*given: Any) -> Any:
        at_work["begun"] += 1
        try:
            return recycle(*given)
        finally:
            at_work["ended"] += 1

    monkeypatch.setattr(Recycler, "recycle", counted)
    async with served.held(shop, "files.deleted", visit=3) as (handle, door):
        await handle.terminate("by hand")
        door.open()
        await eventually_async("the ranges under way end", lambda: at_work["begun"] == at_work["ended"])
    assert len(listing(root)) > 100
    rig.later(61)  # the lease ends
    await finish(served, shop)

    settled(rig, shop, root)
    assert rig.leases.acquire(shop, "recycle", "next").epoch == 4


@pytest.mark.slow
async def test_paused_activity_stops_between_pages_and_continues(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "RANGE_OBJECTS", 2 * MARKS)  # the button pauses one range, not the round
    rig, root = served.rig, filled(served, shop, tmp_path)
    service, namespace = served.client.workflow_service, served.client.namespace

    claims, begun = iter(range(10_000)), threading.Event()

    def until_told(name: str) -> None:
        if name == "claim.committed" and next(claims) == 2:
            begun.set()
            eventually("the activity is told of the pause", activity.is_cancelled)

    with installed(until_told):
        handle = await served.start(shop)
        execution = WorkflowExecution(workflow_id=handle.id)
        await happened(begun)
        which = {"namespace": namespace, "execution": execution, "type": "recycle_range"}
        await service.pause_activity(PauseActivityRequest(**which))

        async def states() -> list[int]:
            return [a.state for a in (await handle.describe()).raw_description.pending_activities]

        await eventually_async("no attempt runs", states, lambda seen: seen == [PAUSED])
        left = len(listing(root))
        rig.later(61)  # as if it had been paused for longer than the lease
        await service.unpause_activity(UnpauseActivityRequest(**which))
        report = await handle.result()
    rig.later(3_601)
    await served.round(shop)

    assert left > 100
    assert report.state == "SUCCEEDED"
    settled(rig, shop, root)


@pytest.mark.slow
async def test_reset_run_continues_under_its_lease_and_loses_nothing(served: Served, shop: str, tmp_path: Path) -> None:
    rig, root = served.rig, filled(served, shop, tmp_path)

    async with served.held(shop, "files.deleted", visit=3) as (handle, door):
        history = await handle.fetch_history()
        tasks = [e.event_id for e in history.events if e.HasField("workflow_task_completed_event_attributes")]
        reset = await served.client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=served.client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=handle.id),
                workflow_task_finish_event_id=tasks[-1],
                request_id=shop,
                reason="a test",
            )
        )
        door.open()
        again = served.client.get_workflow_handle(handle.id, run_id=reset.run_id)
        await again.result()
    rig.later(61)
    await finish(served, shop)

    settled(rig, shop, root)
