"""What an operator may signal to a running workflow: verbs in pairs, each safe to repeat."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

T = TypeVar("T")


class InterruptedBySignal(Exception):
    """What was being done was ended by a signal; the work of its activities stopped after the current page."""


class Controls:
    """Signals ``cancel``, ``pause``, ``resume`` and ``retry``, and waiting that heeds them."""

    def __init__(self) -> None:
        self._cancel = False
        self._pause = False
        self._kicks = 0

    @workflow.signal
    def cancel(self) -> None:
        """End after the current page, with a report."""
        self._cancel = True

    @workflow.signal
    def pause(self) -> None:
        """Stop after the current page and give the lease back, until ``resume``."""
        self._pause = True

    @workflow.signal
    def resume(self) -> None:
        """Take a new lease and go on where it stopped."""
        self._pause = False

    @workflow.signal
    def retry(self) -> None:
        """Try failed kinds now, whatever backoff is left."""
        self._kicks += 1

    async def unless_told(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns, or cancel it and raise ``InterruptedBySignal`` when a signal asks for it.

        Work that ended in the same moment counts as done: its result is not lost. When the workflow itself is
        cancelled the work is cancelled, and waited for, first.
        """
        task = asyncio.create_task(work)
        try:
            await workflow.wait_condition(lambda: task.done() or self._cancel or self._pause)
        except asyncio.CancelledError:  # not finally: a workflow that leaves a worker's cache must do nothing more
            await end(task)
            raise
        told = not task.done()  # a pause may be taken back before the page has ended
        await end(task)
        try:
            return task.result()
        except (asyncio.CancelledError, ActivityError) as e:
            # An activity that waits for a lease answers a cancel with "busy": Temporal does not try it again then.
            if told:
                raise InterruptedBySignal from e
            raise

    async def back_off(self, seconds: float, kicks: int) -> None:
        """Wait, or shorter when a signal comes: ``kicks`` is how many came before there was anything to retry."""
        try:
            await workflow.wait_condition(
                lambda: self._kicks > kicks or self._cancel or self._pause, timeout=seconds, timeout_summary="backoff"
            )
        except TimeoutError:
            return

    async def while_paused(self) -> None:
        """Return when the pause is over, or the round is to end."""
        await workflow.wait_condition(lambda: not self._pause or self._cancel)


async def end(task: "asyncio.Task[Any]") -> None:
    """Cancel a task that still runs, and wait until it has ended."""
    if not task.done():
        task.cancel()
        await workflow.wait([task])
    if not task.cancelled():
        task.exception()  # seen, whether or not anybody asks for it


def stop_if_cancelled() -> None:
    """Raise where this task was asked to stop: an activity that ended in the same moment swallowed the request."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
