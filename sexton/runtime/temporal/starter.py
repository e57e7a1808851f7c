"""Start and signal rounds, purges, checks and binlog GCs from threads, as the API's routes do."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.runtime.temporal.client import connect
from sexton.runtime.temporal.control_client import ControlClient, TemporalAway
from sexton.runtime.temporal.works import OF_REQUEST

PATIENCE_SECONDS = 5.0
Result = TypeVar("Result")


class StartedRun(NamedTuple):
    """A workflow that was started: its workflow id and its run id."""

    workflow: str
    run: str


class WorkflowStarter:
    """Starts and signals workflows over one connection, opened for the first of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        threading.Thread(target=self._loop.run_forever, name="temporal", daemon=True).start()

    def start(self, request: Any) -> StartedRun:
        """Start the work that a request is for, as ``works.OF_REQUEST`` says.

        Raises:
            AlreadyRunning: work of the same kind runs for its instance or topic.
            TemporalAway: Temporal does not answer, or refuses.
        """
        work = OF_REQUEST[type(request)]

        async def start(client: Client) -> StartedRun:
            handle = await work.start(client, self._settings, request)
            return StartedRun(handle.id, handle.result_run_id or "")

        return self._do(start, f"{work.name.format(subject=work.subject(request))} may have begun")

    def signal(self, work: ControlClient[Any, Any, Any], subject: str, signal: str) -> int:
        """Signal a running workflow; return how many workers poll, so that can deliver the signal.

        Args:
            work: which one of ``works``.
            subject: its instance or topic.
            signal: the name of the signal.

        Raises:
            NotRunning: none of the subject runs.
            TemporalAway: Temporal does not answer, or refuses.
        """
        return self._do(
            lambda client: work.signal(client, self._settings, subject, signal), "the signal may have been sent"
        )

    def ask(self, call: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        """Return what a call of Temporal returns. Raise ``TemporalAway`` where it does not answer, or refuses."""
        return self._do(call, "it may have been done")

    def _do(self, call: Callable[[Client], Coroutine[Any, Any, Result]], doubt: str) -> Result:
        async def in_time() -> Result:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    if self._client is None:
                        try:
                            self._client = await connect(self._settings)
                        except SextonError as e:
                            raise TemporalAway(str(e)) from e
                    return await call(self._client)
            except TimeoutError as e:
                sent = f"{doubt}, see: sexton status" if self._client else "nothing was sent"
                raise TemporalAway(f"Temporal does not answer; {sent}") from e
            except RPCError as e:
                raise TemporalAway(f"Temporal refused: {e.message}") from e

        return asyncio.run_coroutine_threadsafe(in_time(), self._loop).result()
