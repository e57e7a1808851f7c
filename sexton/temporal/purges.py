"""Start the purge of a topic that somebody asked for, and tell a running one something."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from config.settings import Settings
from sexton.errors import SextonError
from sexton.temporal.client import connect, pollers
from sexton.temporal.waiting import Words, ended
from sexton.wal.runs import PurgeReport, PurgeRequest
from workflows import ids


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
        said = f"topic {topic} is being purged already; not to wait for flushes: sexton wal now {topic}"
        raise AlreadyPurging(said) from e
    except RPCError as e:
        raise SextonError(f"Temporal refused the purge: {e.message}") from e


def run_purge(settings: Settings, request: PurgeRequest, tell: Callable[[str], None]) -> PurgeReport:
    """Run a purge and return its report; ``tell`` is told what a person should know. Ctrl-C ends the waiting."""

    async def run() -> PurgeReport:
        handle = await start(await connect(settings), settings, request)
        name = request.topic
        words = Words(f"the purge of topic {name}", f"sexton wal explain {name}", f"sexton wal cancel {name}")
        return await ended(handle, words, tell)

    return asyncio.run(run())


async def signal(client: Client, settings: Settings, topic: str, name: str) -> int:
    """Signal the running purge of a topic; return how many workers there are to heed it.

    Raises:
        SextonError: none is running, or Temporal refuses.
    """
    try:
        await client.get_workflow_handle(ids.purge_wal(settings.require_deployment(), topic)).signal(name)
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            raise SextonError(f"no purge of topic {topic} by hand is running; see: sexton wal list") from e
        raise
    return await pollers(client, settings)
