"""Call Temporal directly: delete the schedule of rounds, run a purge of binlogs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from sexton.replication.binlog.model import GcReport, GcRequest
from sexton.runtime.embedded.stack import Stack
from sexton.runtime.temporal import schedules
from workflows import ids

T = TypeVar("T")


def delete_schedule(stack: Stack) -> bool:
    """Delete the schedule that an earlier `sexton up` created here; return whether it was active.

    Its rounds would delete what the demo compares with a plan. The next `sexton up` creates it again. A schedule that
    an operator paused starts no round, and stays.
    """
    deployment = stack.environment()["SEXTON_DEPLOYMENT"]

    async def deleted(client: Client) -> bool:
        active = any(not s.paused for s in await schedules.describe(client, deployment))
        if active:
            await schedules.handle(client, deployment).delete()
        return active

    return _call(stack, deleted)


def purge_binlogs(stack: Stack, instance: str) -> GcReport:
    """Purge the binlogs of an instance once, as the schedule does every five minutes; return the report."""
    deployment = stack.environment()["SEXTON_DEPLOYMENT"]

    async def report(client: Client) -> GcReport:
        result: GcReport = await client.execute_workflow(
            ids.GC_BINLOG,
            GcRequest(deployment=deployment, instance=instance, requested_by="the demo"),
            id=ids.gc_binlog(deployment, instance),
            task_queue=ids.control_queue(deployment),
            result_type=GcReport,
        )
        return result

    return _call(stack, report)


def _call(stack: Stack, request: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        address = stack.environment()["SEXTON_TEMPORAL__ADDRESS"]
        return await request(await Client.connect(address, data_converter=pydantic_data_converter))

    return asyncio.run(connected())
