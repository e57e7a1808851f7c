"""Ask a workflow that is named by what it works on what it does, tell it something, and wait for it while it tells."""

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.service import RPCError, RPCStatusCode

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.runtime.temporal.client import pollers
from sexton.runtime.temporal.waiting import Words, ended

T = TypeVar("T")
P = TypeVar("P")
WATCH_SECONDS = 2.0
QUERY_PATIENCE = dt.timedelta(seconds=2)


class WorkflowRef(NamedTuple):
    """A workflow that may be running: its id; what it is, in words; what is said where it does not run."""

    id: str
    what: str
    none: str


async def progress(client: Client, one: WorkflowRef, kind: type[P]) -> P:
    """Return what a running workflow answers; ``SextonError`` where none runs, or no worker answers."""
    handle = client.get_workflow_handle(one.id)
    try:
        if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
            raise SextonError(one.none)
        found: P = await handle.query("progress", result_type=kind, rpc_timeout=QUERY_PATIENCE)
        return found
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            raise SextonError(one.none) from e
        raise SextonError(f"{one.what} does not tell: {e.message}; is a worker there?") from e


async def signal(client: Client, settings: Settings, one: WorkflowRef, name: str) -> int:
    """Signal a running workflow; return how many workers there are to heed it.

    Raises:
        SextonError: none is running, or Temporal refuses.
    """
    try:
        await client.get_workflow_handle(one.id).signal(name)
    except RPCError as e:
        if e.status is RPCStatusCode.NOT_FOUND:
            raise SextonError(one.none) from e
        raise
    return await pollers(client, settings)


async def awaited(
    handle: WorkflowHandle[Any, T],
    words: Words,
    tell: Callable[[str], None],
    kind: type[P],
    said: Callable[[P], str],
) -> T:
    """Return the result as ``waiting.ended`` does; meanwhile ``tell`` is told whenever it does something else.

    Args:
        handle: of the workflow.
        words: what is waited for.
        tell: who is told.
        kind: of what its query ``progress`` answers.
        said: that in words.
    """
    watching = asyncio.ensure_future(_watch(handle, tell, kind, said))
    try:
        return await ended(handle, words, tell)
    finally:
        watching.cancel()


async def _watch(
    handle: WorkflowHandle[Any, Any], tell: Callable[[str], None], kind: type[P], said: Callable[[P], str]
) -> None:
    """Tell what a workflow does whenever that is something else; it never ends by itself."""
    told = ""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            its: P = await handle.query("progress", result_type=kind, rpc_timeout=QUERY_PATIENCE)
        except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
            continue
        if said(its) != told:
            told = said(its)
            tell(told)
