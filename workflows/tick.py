"""Start the rounds, checks, purges and binlog GCs that are due; of rounds at most as many as there are free slots.

Each has a fixed workflow id, so one that is running is not started again.
"""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.tick import TickActivities
    from sexton.check.model import CheckRequest
    from sexton.recycle.rounds.model import DueInstances, RecycleRequest, TickRequest
    from sexton.replication.binlog.model import GcRequest
    from sexton.wal.messages import PurgeRoundRequest
    from workflows import ids
    from workflows.binlog import GcBinlog
    from workflows.check import CheckInstance
    from workflows.children import Scheduled, start
    from workflows.options import SQL_READ
    from workflows.purge_round import PurgeWalRound
    from workflows.recycle import RecycleInstance
    from workflows.search_attributes import Capability


@workflow.defn(name=ids.TICK)
class RecycleTick:
    """Start the workflows that are due, without waiting for them to end."""

    @workflow.run
    async def run(self, request: TickRequest) -> DueInstances:
        """Start everything that is due; return the instances whose rounds were started."""
        due = await workflow.execute_activity_method(
            TickActivities.due_instances, **SQL_READ, summary="find what is due"
        )
        started: list[str] = []
        for name in due.instances:
            if len(started) >= due.slots:
                break
            if await start(_round(request.deployment, name), request.deployment):
                started.append(name)  # otherwise its round is running already, perhaps paused or backing off
        for child in _others(request.deployment, due):
            await start(child, request.deployment)
        return due.model_copy(update={"instances": tuple(started), "slots": 0})


def _round(deployment: str, instance: str) -> Scheduled:
    request = RecycleRequest(instance=instance, requested_by=ids.SCHEDULED)
    workflow_id = ids.recycle(deployment, instance)
    return Scheduled(RecycleInstance.run, request, workflow_id, Capability.RECYCLE, instance, f"recycle {instance}")


def _others(deployment: str, due: DueInstances) -> list[Scheduled]:
    """Return the checks, the purge of topics and the binlog GCs that are due."""
    children = []
    for name in due.checks:
        check = CheckRequest(instance=name, requested_by=ids.SCHEDULED)
        check_id = ids.check(deployment, name)
        children.append(Scheduled(CheckInstance.run, check, check_id, Capability.CHECK, name, f"check {name}"))
    if due.topics:
        purge = PurgeRoundRequest(deployment=deployment, requested_by=ids.SCHEDULED)
        purge_id = ids.purge_wal_round(deployment)
        children.append(Scheduled(PurgeWalRound.run, purge, purge_id, Capability.WAL, "", "purge topics"))
    for name in due.binlogs:
        gc = GcRequest(deployment=deployment, instance=name, requested_by=ids.SCHEDULED)
        gc_id = ids.gc_binlog(deployment, name)
        children.append(Scheduled(GcBinlog.run, gc, gc_id, Capability.BINLOG, name, f"binlogs of {name}"))
    return children
