"""Start the rounds, checks, purges and binlog GCs that are due; of rounds at most as many as there are free slots.

Each has a fixed workflow id, so one that is running is not started again.
"""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from activities.tick import TickActivities
    from sexton.check.model import CheckRequest
    from sexton.recycle.rounds.model import DueInstances, RecycleRequest, TickRequest
    from sexton.replication.binlog.messages import GcRequest
    from sexton.wal.messages import PurgeRoundRequest
    from workflows import ids
    from workflows.binlog import GcBinlog
    from workflows.check import CheckInstance
    from workflows.options import CATALOG_READ
    from workflows.purge_round import PurgeWalRound
    from workflows.recycle import RecycleInstance


@workflow.defn(name=ids.TICK)
class RecycleTick:
    """Start the workflows that are due, without waiting for them to end."""

    @workflow.run
    async def run(self, request: TickRequest) -> DueInstances:
        """Start everything that is due; return the instances whose rounds were started."""
        due = await workflow.execute_activity_method(TickActivities.due_instances, **CATALOG_READ)
        started: list[str] = []
        for name in due.instances:
            if len(started) >= due.slots:
                break
            recycle = RecycleRequest(instance=name, requested_by=ids.SCHEDULED)
            if await _start(RecycleInstance.run, recycle, ids.recycle(request.deployment, name), f"recycle {name}"):
                started.append(name)  # otherwise its round is running already, perhaps paused or backing off
        for name in due.checks:
            check = CheckRequest(instance=name, by=ids.SCHEDULED)
            await _start(CheckInstance.run, check, ids.check(request.deployment, name), f"check {name}")
        if due.topics:
            purge = PurgeRoundRequest(deployment=request.deployment)
            await _start(PurgeWalRound.run, purge, ids.purge_wal_round(request.deployment), "purge topics")
        for name in due.binlogs:
            gc = GcRequest(deployment=request.deployment, instance=name, requested_by=ids.SCHEDULED)
            await _start(GcBinlog.run, gc, ids.gc_binlog(request.deployment, name), f"binlogs of {name}")
        return due.model_copy(update={"instances": tuple(started), "slots": 0})


async def _start(run: Any, request: Any, workflow_id: str, summary: str) -> bool:
    """Start a workflow that outlives this one; return False if it is running already."""
    try:
        await workflow.start_child_workflow(
            run,
            request,
            id=workflow_id,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"{summary}, scheduled",
        )
    except WorkflowAlreadyStartedError:
        return False
    return True
