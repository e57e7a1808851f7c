"""Send the heartbeats of a long activity, so that Temporal notices a dead worker within seconds.

A thread sends one each second while the work has called ``heartbeat`` recently. A slow statement therefore does not
count as a dead worker; work that hangs stops sending.
"""

import contextvars
import threading
import time
from types import TracebackType
from typing import Self

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError

BEAT_SECONDS = 1.0
SILENCE_SECONDS = 45.0
"""Longer than a request with all its retries and than any statement's lock wait; shorter than a lease."""


class AutoHeartbeat:
    """A context manager around the work, which calls ``heartbeat`` between its pages."""

    def __init__(self, silence_seconds: float = SILENCE_SECONDS) -> None:
        """``silence_seconds``: how long one statement or request of the work may take."""
        self._silence = silence_seconds
        self._last = time.monotonic()
        self._stop = threading.Event()
        # Copy the context: a plain thread would not know to which activity a heartbeat belongs.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def keep_alive(self) -> None:
        """Record that the work continues; do not check whether it must stop."""
        self._last = time.monotonic()

    def heartbeat(self) -> None:
        """Record that the work continues, and raise if it must stop. Called between two pages.

        Raises:
            CancelledError: the activity was cancelled, or paused in Temporal.
            ApplicationError: the worker shuts down; another attempt continues.
        """
        self.keep_alive()
        if activity.is_cancelled():
            raise CancelledError("cancelled between pages")
        if activity.is_worker_shutdown():
            benign = ApplicationErrorCategory.BENIGN  # not a fault: no traceback in the worker's log
            raise ApplicationError(
                "the worker shuts down; another attempt continues", type="WorkerShutdown", category=benign
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            if time.monotonic() - self._last < self._silence:
                activity.heartbeat()
            self._stop.wait(BEAT_SECONDS)
