"""What the demo asks Temporal itself: which worker deletes, that no round starts but ours, and a look at binlogs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode

from sexton.replication.binlog.messages import GcReport, GcRequest
from sexton.runtime.embedded.stack import Stack
from sexton.runtime.temporal import schedules
from workflows import ids

T = TypeVar("T")


def deleting(stack: Stack, instance: str, kind: str) -> str:
    """Return the name of the worker that deletes a kind of the running round; empty while none does."""
    deployment = stack.environment()["SEXTON_DEPLOYMENT"]

    async def identity(client: Client) -> str:
        handle = client.get_workflow_handle(ids.recycle(deployment, instance))
        ours = set()
        async for event in handle.fetch_history_events():
            # The summary is what the Temporal UI shows beside the activity: "KIND, range N".
            if event.user_metadata.summary.data.startswith(f'"{kind},'.encode()):
                ours.add(event.activity_task_scheduled_event_attributes.activity_id)
        for pending in (await handle.describe()).raw_description.pending_activities:
            if pending.activity_id in ours and pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
                return pending.last_worker_identity.partition("@")[0]  # PID@HOST
        return ""

    try:
        pid = _ask(stack, identity)
    except RPCError as e:
        if e.status is not RPCStatusCode.NOT_FOUND:
            raise
        return ""  # the round has not begun
    return next((name for name, child in stack.children.items() if str(child.pid) == pid), "")


def unschedule(stack: Stack) -> bool:
    """Remove the schedule that an earlier `sexton up` made here, and which it makes again; return whether it did.

    Its rounds would delete what the demo holds against a plan. One that somebody paused starts none, and stays.
    """
    deployment = stack.environment()["SEXTON_DEPLOYMENT"]

    async def removed(client: Client) -> bool:
        active = any(not s.paused for s in await schedules.describe(client, deployment))
        if active:
            await schedules.handle(client, deployment).delete()
        return active

    return _ask(stack, removed)


def gc_binlogs(stack: Stack, instance: str) -> GcReport:
    """Look at an instance's binlogs once, as the tick has it done every five minutes; return what came of it."""
    deployment = stack.environment()["SEXTON_DEPLOYMENT"]

    async def ended(client: Client) -> GcReport:
        report: GcReport = await client.execute_workflow(
            ids.GC_BINLOG,
            GcRequest(deployment=deployment, instance=instance, requested_by="the demo"),
            id=ids.gc_binlog(deployment, instance),
            task_queue=ids.control_queue(deployment),
            result_type=GcReport,
        )
        return report

    return _ask(stack, ended)


def _ask(stack: Stack, call: Callable[[Client], Awaitable[T]]) -> T:
    async def asked() -> T:
        address = stack.environment()["SEXTON_TEMPORAL__ADDRESS"]
        return await call(await Client.connect(address, data_converter=pydantic_data_converter))

    return asyncio.run(asked())
