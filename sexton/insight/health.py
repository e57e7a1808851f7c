"""Answer whether a process lives and is ready, quickly, however slow what it depends on is."""

import logging
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sexton.database import schema
from sexton.database.engine import Database
from sexton.kernel.errors import SextonError

log = logging.getLogger(__name__)

Check = Callable[[], object]
"""Raises if it fails."""
CACHE_SECONDS = 1.0
"""How long the result of a check is reused."""
DEADLINE_SECONDS = 2.0
"""A check without a result after this time has failed; it ends in its own thread."""
LOOP_SECONDS = 30.0
"""An event loop that has not turned for this long hangs."""


class ProbeAnswer(NamedTuple):
    """``failed``: the names of the checks that failed; none: all is well. Their reasons are only logged."""

    failed: tuple[str, ...] = ()

    @property
    def body(self) -> dict[str, object]:
        """Return the answer as JSON."""
        return {"status": "unavailable", "failed": list(self.failed)} if self.failed else {"status": "ok"}


class Health:
    """The checks of one process."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        """Store the checks by name.

        If one of ``live`` fails, the process should be restarted, so none may wait for another program. ``ready``:
        whether the process can do its work now.
        """
        self._live = {name: _CachedCheck(name, check) for name, check in live.items()}
        self._ready = {name: _CachedCheck(name, check) for name, check in ready.items()}

    def livez(self) -> ProbeAnswer:
        """Return whether the process lives."""
        return _failed(self._live)

    def readyz(self) -> ProbeAnswer:
        """Return whether the process is ready."""
        return _failed(self._ready)


class LoopWatch:
    """Notes each second that an event loop turns. Create it in that loop."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._turn()

    def check(self) -> None:
        """Raise if the loop has not turned for ``LOOP_SECONDS``."""
        seconds = time.monotonic() - self._turned_at
        if seconds > LOOP_SECONDS:
            raise SextonError(f"the event loop has not turned for {seconds:.0f} s")

    def _turn(self) -> None:
        self._turned_at = time.monotonic()
        self._loop.call_later(1, self._turn)


def database_check(db: Database, deployment: str) -> Check:
    """Return the check that the database answers, with the schema of this version and deployment."""
    return lambda: schema.check(db, deployment)


class _CachedCheck:
    """Runs one check in a thread, once at a time, and keeps its result for a moment."""

    def __init__(self, name: str, check: Check) -> None:
        self._name, self._check = name, check
        self._state = threading.Condition()
        self._runs, self._failed = False, False
        self._ended_at = float("-inf")

    def passes(self, deadline: float) -> bool:
        with self._state:
            if not self._runs and time.monotonic() - self._ended_at < CACHE_SECONDS:
                return not self._failed
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name=f"check-{self._name}", daemon=True).start()
            ended = self._state.wait_for(lambda: not self._runs, max(0.0, deadline - time.monotonic()))
            return ended and not self._failed

    def _run(self) -> None:
        failure = ""
        try:
            self._check()
        except Exception as e:  # noqa: BLE001  # whatever is wrong, the process is not ready
            failure = str(e) or type(e).__name__
        with self._state:
            if failure and not self._failed:  # once, not at each probe
                log.warning("the health check of the %s fails: %s", self._name, failure.splitlines()[0])
            self._failed, self._runs, self._ended_at = bool(failure), False, time.monotonic()
            self._state.notify_all()


def _failed(checks: Mapping[str, _CachedCheck]) -> ProbeAnswer:
    deadline = time.monotonic() + DEADLINE_SECONDS
    return ProbeAnswer(tuple(name for name, check in checks.items() if not check.passes(deadline)))
