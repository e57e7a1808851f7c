"""Start a round that somebody asked for."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.recycle.model import RecycleRequest, RoundReport
from sexton.runtime.temporal import purges
from sexton.runtime.temporal.client import connect
from sexton.wal.messages import PurgeRequest
from workflows import ids

PATIENCE_SECONDS = 5.0


class AlreadyRunning(SextonError):
    """The instance has a round under way."""


class TemporalAway(SextonError):
    """Temporal does not answer, or refuses."""

    passes = True


How = Callable[[Client], Coroutine[Any, Any, WorkflowHandle[Any, Any]]]


class Begun(NamedTuple):
    """A workflow that was started."""

    workflow: str
    run: str


async def start(client: Client, settings: Settings, request: RecycleRequest) -> WorkflowHandle[Any, RoundReport]:
    """Start the workflow of a round and return its handle.

    Raises:
        AlreadyRunning: the instance has a round under way.
        TemporalAway: Temporal refuses.
    """
    deployment = settings.require_deployment()
    try:
        return await client.start_workflow(
            ids.RECYCLE,
            request,
            id=ids.recycle(deployment, request.instance),
            task_queue=ids.control_queue(deployment),
            result_type=RoundReport,
            static_summary=f"recycle {request.instance}, by hand" + (f", plan {request.plan}" if request.plan else ""),
        )
    except WorkflowAlreadyStartedError as e:
        raise AlreadyRunning(f"a round of {request.instance} is running already; see: sexton status") from e
    except RPCError as e:
        raise TemporalAway(f"Temporal refused the round: {e.message}") from e


class RoundStarter:
    """Starts rounds and purges from threads, over one connection that is made when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        threading.Thread(target=self._loop.run_forever, name="temporal", daemon=True).start()

    def start(self, request: RecycleRequest) -> Begun:
        """Start a round. Raises as ``rounds.start`` does."""
        return self._begun(lambda client: start(client, self._settings, request), "whether the round began")

    def purge(self, request: PurgeRequest) -> Begun:
        """Start the purge of a topic. Raises as ``purges.start`` does."""
        return self._begun(lambda client: purges.start(client, self._settings, request), "whether it began")

    def _begun(self, how: How, unsure: str) -> Begun:
        return asyncio.run_coroutine_threadsafe(self._in_time(how, unsure), self._loop).result()

    async def _in_time(self, how: How, unsure: str) -> Begun:
        try:
            return await asyncio.wait_for(self._start(how), PATIENCE_SECONDS)
        except TimeoutError as e:
            raise TemporalAway(f"Temporal does not answer; {unsure}: sexton status") from e

    async def _start(self, how: How) -> Begun:
        if self._client is None:
            try:
                self._client = await connect(self._settings)
            except SextonError as e:
                raise TemporalAway(str(e)) from e
        handle = await how(self._client)
        return Begun(handle.id, handle.result_run_id or "")
