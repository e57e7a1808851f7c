"""Start rounds and purges from threads, as the API's routes do."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from temporalio.client import Client, WorkflowHandle

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.recycle.rounds.model import RecycleRequest
from sexton.runtime.temporal.client import connect
from sexton.runtime.temporal.purges import PURGES
from sexton.runtime.temporal.rounds import ROUNDS, TemporalAway
from sexton.wal.messages import PurgeRequest

PATIENCE_SECONDS = 5.0

StartCall = Callable[[Client], Coroutine[Any, Any, WorkflowHandle[Any, Any]]]


class Started(NamedTuple):
    """A workflow that was started: its workflow id and its run id."""

    workflow: str
    run: str


class WorkflowStarter:
    """Starts rounds and purges over one connection, which is opened for the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        threading.Thread(target=self._loop.run_forever, name="temporal", daemon=True).start()

    def start_round(self, request: RecycleRequest) -> Started:
        """Start a round.

        Raises:
            AlreadyRunning: a round of the instance runs.
            TemporalAway: Temporal does not answer, or refuses.
        """
        return self._start(lambda client: ROUNDS.start(client, self._settings, request), "the round")

    def start_purge(self, request: PurgeRequest) -> Started:
        """Start the purge of a topic.

        Raises:
            AlreadyPurging: a purge of the topic runs, scheduled or started by hand.
            TemporalAway: Temporal does not answer.
            SextonError: Temporal refuses.
        """
        return self._start(lambda client: PURGES.start(client, self._settings, request), "the purge")

    def _start(self, call: StartCall, name: str) -> Started:
        return asyncio.run_coroutine_threadsafe(self._in_time(call, name), self._loop).result()

    async def _in_time(self, call: StartCall, name: str) -> Started:
        try:
            return await asyncio.wait_for(self._connect_and_start(call), PATIENCE_SECONDS)
        except TimeoutError as e:
            raise TemporalAway(f"Temporal does not answer; {name} may have begun, see: sexton status") from e

    async def _connect_and_start(self, call: StartCall) -> Started:
        if self._client is None:
            try:
                self._client = await connect(self._settings)
            except SextonError as e:
                raise TemporalAway(str(e)) from e
        handle = await call(self._client)
        return Started(handle.id, handle.result_run_id or "")
