"""Start rounds and checks that are due, as many as there are slots, and end.

Fixed ids: what runs is not started twice.
"""

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from activities.tick import TickActivities
    from sexton.check.model import CheckRequest
    from sexton.recycle.model import Due, RecycleRequest, TickRequest
    from workflows import ids
    from workflows.check import CheckInstance
    from workflows.options import CATALOG_READ
    from workflows.recycle import RecycleInstance


@workflow.defn(name=ids.TICK)
class RecycleTick:
    """Thin: it waits for nothing it starts."""

    @workflow.run
    async def run(self, request: TickRequest) -> Due:
        """Start what is due; return the instances whose rounds were started."""
        due = await workflow.execute_activity_method(TickActivities.due_instances, **CATALOG_READ)
        started: list[str] = []
        for name in due.instances:
            if len(started) >= due.slots:
                break
            try:
                await workflow.start_child_workflow(
                    RecycleInstance.run,
                    RecycleRequest(instance=name, requested_by=ids.SCHEDULED),
                    id=ids.recycle(request.deployment, name),
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    static_summary=f"recycle {name}, scheduled",
                )
            except WorkflowAlreadyStartedError:
                continue  # it runs, is paused, or is backing off
            started.append(name)
        for name in due.checks:
            try:
                await workflow.start_child_workflow(
                    CheckInstance.run,
                    CheckRequest(instance=name, by=ids.SCHEDULED),
                    id=ids.check(request.deployment, name),
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    static_summary=f"check {name}, scheduled",
                )
            except WorkflowAlreadyStartedError:
                continue
        return Due(instances=tuple(started), checks=due.checks)
