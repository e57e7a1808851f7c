"""The heartbeat of a long activity: quick to show a dead worker, patient with a slow statement.

A thread beats once a second for as long as the work has called ``heartbeat`` lately; work that hangs falls silent too.
"""

import contextvars
import threading
import time
from types import TracebackType
from typing import Any, Self

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError

BEAT_SECONDS = 1.0
SILENCE_SECONDS = 45.0
"""Longer than the longest request with its retries, and than any statement's lock wait; shorter than a lease."""


class AutoHeartbeat:
    """Use it around the work; pass ``heartbeat`` to the work, to be called between its pages."""

    def __init__(self, silence_seconds: float = SILENCE_SECONDS) -> None:
        """``silence_seconds``: how long one statement or request of the work may take."""
        self._silence = silence_seconds
        self._last = time.monotonic()
        self._said: tuple[Any, ...] = ()
        self._stop = threading.Event()
        # The activity's context: a plain thread would not know whose heartbeat it is.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="heart", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def alive(self) -> None:
        """Say that the work goes on, and do not ask whether it should stop."""
        self._last = time.monotonic()

    def say(self, details: Any) -> None:
        """Tell with each heartbeat from now on how far the work is; small, and for people only."""
        self._said = (details,)

    def heartbeat(self) -> None:
        """Say that the work goes on, and stop here if it should.

        Raises:
            CancelledError: it was cancelled, or paused in Temporal: stop here, between two pages.
            ApplicationError: the worker shuts down; another attempt goes on.
        """
        self.alive()
        if activity.is_cancelled():
            raise CancelledError("cancelled between pages")
        if activity.is_worker_shutdown():
            benign = ApplicationErrorCategory.BENIGN  # no fault, and no traceback in its log
            raise ApplicationError(
                "the worker shuts down; another attempt goes on", type="WorkerShutdown", category=benign
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            if time.monotonic() - self._last < self._silence:
                activity.heartbeat(*self._said)
            self._stop.wait(BEAT_SECONDS)
