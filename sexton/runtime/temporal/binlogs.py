"""Start a look at an instance's binlogs that somebody asked for, and tell a running one something."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.replication.binlog.messages import GcProgress, GcReport, GcRequest
from sexton.runtime.temporal import workflow_ref
from sexton.runtime.temporal.client import connect
from sexton.runtime.temporal.waiting import Words
from workflows import ids

NONE = "no look at the binlogs of {instance} is running; see: sexton binlog list"


class AlreadyLooking(SextonError):
    """The instance's binlogs are being looked at, by the schedule or by hand."""


async def start(client: Client, settings: Settings, request: GcRequest) -> WorkflowHandle[Any, GcReport]:
    """Start the workflow and return its handle.

    Raises:
        AlreadyLooking: one of the instance runs.
        SextonError: Temporal refuses.
    """
    deployment, instance = settings.require_deployment(), request.instance
    try:
        return await client.start_workflow(
            ids.GC_BINLOG,
            request,
            id=ids.gc_binlog(deployment, instance),
            task_queue=ids.control_queue(deployment),
            result_type=GcReport,
            static_summary=f"binlogs of {instance}, by hand",
        )
    except WorkflowAlreadyStartedError as e:
        raise AlreadyLooking(
            f"the binlogs of {instance} are being looked at already: to see how far: sexton binlog progress; where it "
            "backs off: sexton binlog retry, where it is paused: sexton binlog resume"
        ) from e
    except RPCError as e:
        raise SextonError(f"Temporal refused it: {e.message}") from e


def run_gc(settings: Settings, request: GcRequest, tell: Callable[[str], None]) -> GcReport:
    """Look at an instance's binlogs and return the report; ``tell`` is told what a person should know.

    Ctrl-C ends the waiting.
    """

    async def run() -> GcReport:
        handle = await start(await connect(settings), settings, request)
        of = f"--instance {request.instance}"
        words = Words(
            f"the look at the binlogs of {request.instance}",
            f"sexton binlog progress {of}",
            f"sexton binlog cancel {of}",
        )
        return await workflow_ref.awaited(handle, words, tell, GcProgress, said)

    return asyncio.run(run())


async def progress(client: Client, settings: Settings, instance: str) -> GcProgress:
    """Return what the running look does; ``SextonError`` where none runs, or no worker answers."""
    return await workflow_ref.progress(client, _one(settings, instance), GcProgress)


async def signal(client: Client, settings: Settings, instance: str, name: str) -> int:
    """Signal the running look; return how many workers there are to heed it.

    Raises:
        SextonError: none is running, or Temporal refuses.
    """
    return await workflow_ref.signal(client, settings, _one(settings, instance), name)


def said(its: GcProgress) -> str:
    """Return what a look does, in words for people."""
    if its.doing == "BACKING OFF":
        again = f"try {its.tries + 1} in {its.backoff_seconds:.0f} s"
        return f"it failed: {its.error}; {again}, or now: sexton binlog retry --instance {its.instance}"
    if its.doing == "PAUSED":
        return f"it is paused; to go on: sexton binlog resume --instance {its.instance}"
    if its.doing == "SENDING":
        away = f", {its.away} did not answer" if its.away else ""
        return f"{its.cut.records:,} records cut; {its.waits} backends let go of what they may{away}"
    return {"BEGINNING": "it begins", "CUTTING": "what has expired is cut"}.get(its.doing, its.doing.lower())


def _one(settings: Settings, instance: str) -> workflow_ref.WorkflowRef:
    id_ = ids.gc_binlog(settings.require_deployment(), instance)
    return workflow_ref.WorkflowRef(id_, f"the look at the binlogs of {instance}", NONE.format(instance=instance))
