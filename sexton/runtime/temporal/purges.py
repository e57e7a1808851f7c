"""Start the purge of a topic that somebody asked for, and tell a running one something."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.runtime.temporal import workflow_ref
from sexton.runtime.temporal.client import connect
from sexton.runtime.temporal.waiting import Words
from sexton.wal.messages import PurgeProgress, PurgeReport, PurgeRequest
from workflows import ids

NONE = "no purge of topic {topic} by hand is running; rounds purge by themselves, see: sexton wal purges {topic}"


class AlreadyPurging(SextonError):
    """The topic is being purged by hand."""


async def start(client: Client, settings: Settings, request: PurgeRequest) -> WorkflowHandle[Any, PurgeReport]:
    """Start the workflow of a purge and return its handle.

    Raises:
        AlreadyPurging: one of the topic runs.
        SextonError: Temporal refuses.
    """
    deployment, topic = settings.require_deployment(), request.topic
    try:
        return await client.start_workflow(
            ids.PURGE_WAL,
            request,
            id=ids.purge_wal(deployment, topic),
            task_queue=ids.control_queue(deployment),
            result_type=PurgeReport,
            static_summary=f"purge topic {topic}, by hand",
        )
    except WorkflowAlreadyStartedError as e:
        said = (
            f"topic {topic} is being purged already: to see how far: sexton wal progress {topic}; where it waits for "
        )
        said += "flushes: sexton wal now, where it backs off: sexton wal retry, where it is paused: sexton wal resume"
        raise AlreadyPurging(said) from e
    except RPCError as e:
        raise SextonError(f"Temporal refused the purge: {e.message}") from e


def run_purge(settings: Settings, request: PurgeRequest, tell: Callable[[str], None]) -> PurgeReport:
    """Run a purge and return its report; ``tell`` is told what a person should know. Ctrl-C ends the waiting."""

    async def run() -> PurgeReport:
        handle = await start(await connect(settings), settings, request)
        name = request.topic
        words = Words(f"the purge of topic {name}", f"sexton wal progress {name}", f"sexton wal cancel {name}")
        return await workflow_ref.awaited(handle, words, tell, PurgeProgress, said)

    return asyncio.run(run())


async def progress(client: Client, settings: Settings, topic: str) -> PurgeProgress:
    """Return what the running purge of a topic does; ``SextonError`` where none runs, or no worker answers."""
    return await workflow_ref.progress(client, _one(settings, topic), PurgeProgress)


def said(its: PurgeProgress) -> str:
    """Return what a purge does, in words for people."""
    if its.doing == "FLUSHING":
        return f"{its.behind} regions hold it and are asked to flush; not to wait for them: sexton wal now {its.topic}"
    if its.doing == "BACKING OFF":
        again = f"try {its.tries + 1} in {its.backoff_seconds:.0f} s, or now: sexton wal retry {its.topic}"
        return f"it failed: {its.error}; {again}"
    if its.doing == "PAUSED":
        return f"it is paused; to go on: sexton wal resume {its.topic}"
    return {"PREPARING": "the log is asked", "PURGING": "the log is told to delete"}.get(its.doing, its.doing.lower())


async def signal(client: Client, settings: Settings, topic: str, name: str) -> int:
    """Signal the running purge of a topic; return how many workers there are to heed it.

    Raises:
        SextonError: none is running, or Temporal refuses.
    """
    return await workflow_ref.signal(client, settings, _one(settings, topic), name)


def _one(settings: Settings, topic: str) -> workflow_ref.WorkflowRef:
    id_ = ids.purge_wal(settings.require_deployment(), topic)
    return workflow_ref.WorkflowRef(id_, f"the purge of topic {topic}", NONE.format(topic=topic))
