"""Start workflows that outlive the one that starts them."""

from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from workflows import ids
    from workflows.search_attributes import Capability, at_start, inherited


class Scheduled(NamedTuple):
    """A workflow that the schedule starts. ``instance``: empty if it serves every instance."""

    run: Any
    request: Any
    id: str
    capability: Capability
    instance: str
    summary: str


async def start(child: Scheduled, deployment: str) -> bool:
    """Start a workflow without waiting for its end; return False if one with its id is running already."""
    attributes = at_start(deployment, child.capability, child.instance, ids.SCHEDULED)
    try:
        await workflow.start_child_workflow(
            child.run,
            child.request,
            id=child.id,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"{child.summary}, scheduled",
            memo={"instance": child.instance},
            search_attributes=inherited(attributes),
        )
    except WorkflowAlreadyStartedError:
        return False
    return True
