"""Signals that operators send to a running workflow, and the retry loop that respects them."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.tick import TickActivities
    from workflows import ids, options

T = TypeVar("T")


class InterruptedBySignal(Exception):
    """A signal interrupted the work; its activities stopped after the current page."""


class RetryAfter(NamedTuple):
    """The answer of an attempt that must be repeated: after so many seconds; 0: at once."""

    seconds: float


RETRY_NOW = RetryAfter(0.0)


class Controls:
    """The signals ``cancel``, ``pause``, ``resume`` and ``retry`` (verbs in pairs, each safe to repeat).

    A workflow that is paused or backs off waits in ``run_with_retries``. It overrides ``on_wait`` and ``on_resume`` if
    it has work to do before it waits or continues.
    """

    _doing: str

    def __init__(self) -> None:
        self._work_number: tuple[str, int] | None = None  # a round or a check, once it has begun: its rows are counted
        self._progress: Sequence[str] = ()
        self._cancel = False
        self._pause = False
        self._retry_signals = 0
        self._backoff_seconds = 0.0

    @workflow.signal
    def cancel(self) -> None:
        """End before the next step; work that can be interrupted stops after its current page."""
        self._cancel = True

    @workflow.signal
    def pause(self) -> None:
        """Stop as ``cancel`` does, and wait for ``resume``."""
        self._pause = True

    @workflow.signal
    def resume(self) -> None:
        """Continue after a pause."""
        self._pause = False

    @workflow.signal
    def retry(self) -> None:
        """End a backoff: try failed work again now."""
        self._retry_signals += 1

    @property
    def _is_signalled(self) -> bool:
        """Whether work must stop: a cancel or a pause has arrived."""
        return self._cancel or self._pause

    def _show(self, doing: str) -> None:
        """Show what the workflow does, in the Temporal UI and to its query ``progress``."""
        raise NotImplementedError

    async def on_wait(self, doing: str) -> None:
        """Prepare for a wait. Called before each; ``doing``: one of ``ids.WAITS``."""

    async def on_resume(self) -> None:
        """Prepare for the next attempt. Called if a pause interrupted an attempt and ``resume`` came before its end."""

    async def count_while(self, *working: str) -> None:
        """Show again and again how far the work is, while the workflow does one of these; a task that never ends."""
        seconds = options.COUNT_SECONDS
        while workflow.patched(ids.SHOWN):
            await workflow.wait_condition(lambda: self._doing in working)
            await workflow.sleep(seconds, summary="until it is counted again")
            seconds = min(1.1 * seconds, 20 * options.COUNT_SECONDS)  # a day of it fills no history
            if self._doing in working:
                await self._count()

    async def _count(self) -> None:
        """Read how far the work is, and show it; a database that is away is asked again the next time."""
        doing = self._doing
        if self._work_number is None or not workflow.patched(ids.SHOWN):
            return
        try:
            self._progress = await workflow.execute_local_activity_method(
                TickActivities.read_progress, self._work_number, **options.LOCAL_READ
            )
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
        if self._doing == doing:
            self._show(doing)

    async def run_with_retries(self, attempt: Callable[[], Coroutine[Any, Any, T | RetryAfter]]) -> T | None:
        """Repeat an attempt until it returns a result; return that, or None if an operator cancelled.

        An attempt runs its interruptible part in ``run_until_signalled``, and decides itself when to give up.
        """
        while True:
            if self._pause:
                self._show(ids.PAUSED)
                await self.on_wait(ids.PAUSED)
                await self._count()
                await self.while_paused()
            if self._cancel:
                return None
            try:
                result = await attempt()
            except InterruptedBySignal:
                if self._cancel:
                    return None
                if not self._pause:
                    await self.on_resume()
                continue
            if not isinstance(result, RetryAfter):
                return result
            if result.seconds:
                await self._back_off(result.seconds)

    async def run_until_signalled(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the work's result; cancel the work and raise ``InterruptedBySignal`` when a signal arrives.

        Work that ended before the signal was handled counts as done: its result is returned. If the workflow itself is
        cancelled, the work is cancelled and its end awaited first.
        """
        task = asyncio.create_task(work)
        try:
            await workflow.wait_condition(lambda: task.done() or self._is_signalled)
        except asyncio.CancelledError:  # not finally: a workflow evicted from a worker's cache must do nothing
            await cancel_and_wait(task)
            raise
        interrupted = not task.done()  # read now: resume may take the pause back before the page has ended
        await cancel_and_wait(task)
        try:
            return task.result()
        except (asyncio.CancelledError, ActivityError) as e:
            # An activity that waits for a lease may answer a cancel with "busy"; Temporal does not retry it then.
            if interrupted:
                raise InterruptedBySignal from e
            raise

    async def while_paused(self) -> None:
        """Wait until the pause is over, or the workflow is cancelled."""
        is_paused = self._pause
        if is_paused:
            workflow.logger.info("paused by an operator until: resume")
        await workflow.wait_condition(lambda: not self._pause or self._cancel)
        if is_paused:
            workflow.logger.info("the pause is over")

    async def _back_off(self, seconds: float) -> None:
        """Wait for some seconds, or until ``retry``, ``cancel`` or ``pause`` arrives."""
        self._backoff_seconds, retry_signals = seconds, self._retry_signals
        workflow.logger.info("failed; backs off for %.0f s", seconds)
        self._show(ids.BACKING_OFF)
        await self.on_wait(ids.BACKING_OFF)
        await self._count()
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._retry_signals > retry_signals or self._is_signalled,
                timeout=seconds,
                timeout_summary="backoff",
            )
        self._backoff_seconds = 0.0


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel a task if it still runs, and wait until it has ended."""
    if not task.done():
        task.cancel()
        await workflow.wait([task])
    if not task.cancelled():
        task.exception()  # asyncio logs an exception that no caller has retrieved


def stop_if_cancelled() -> None:
    """Raise ``CancelledError`` if this task was cancelled: an activity that ended meanwhile swallows the request."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
