"""When a protection or a pin is renewed, and when it counts as lost; for both clients.

Instants are seconds of a monotonic clock. The instant of a renewal is taken before its request is sent.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sexton.kernel.errors import SextonError

log = logging.getLogger(__name__)
DEFAULT_TTL_SECONDS = 1_200
RENEWALS = 3
"""How many renewals a protection gets within its own length."""
MARGIN = 0.1
"""The last part of the length, not relied on: clocks differ, and the caller needs time to stop."""
RETRY_SECONDS = 1.0
PHASES = 4
"""Phases of a request that may each take its whole timeout: wait for a connection, connect, send, read."""
SHORTEST_SECONDS = 0.2


@dataclass
class Renewals:
    """One protection or pin that is being renewed."""

    ttl_seconds: float
    renewed_at: float
    _failure: str = field(default="", init=False)
    _refusal: str = field(default="", init=False)

    def wait(self, now: float) -> float:
        """Return the seconds until the next renewal: fewer after a failure, and never beyond the end."""
        due_at = self.renewed_at + self.ttl_seconds / RENEWALS
        pause = min(RETRY_SECONDS, self.ttl_seconds / 20) if self._failure else due_at - now
        return max(0.0, min(pause, self.left(now)))

    def timeout(self, now: float) -> float:
        """Return the timeout in seconds of each phase of a renewal."""
        return max(SHORTEST_SECONDS, self.left(now) / PHASES)

    def left(self, now: float) -> float:
        """Return for how many seconds the protection can be relied on."""
        return max(0.0, self.renewed_at + self.ttl_seconds * (1 - MARGIN) - now)

    def reason_lost(self, now: float) -> str:
        """Return why the protection can no longer be relied on; empty while it can."""
        if self._refusal or self.left(now) > 0:
            return self._refusal
        return f"it could not be renewed in time: {self._failure or 'no server answered'}"

    def record(self, began: float, error: SextonError | None) -> None:
        """Record the result of a renewal that began at ``began``. A lasting refusal means that it is lost."""
        if error is None:
            self.renewed_at, self._failure = began, ""
            return
        self._failure = str(error)
        if not (error.passes or type(error) is SextonError):
            self._refusal = str(error)

    @contextmanager
    def attempt(self, what: str) -> Iterator[float]:
        """Run a block that renews, and record how it ends; ``what``: the protection or pin, in the log."""
        began, error = time.monotonic(), None
        try:
            yield began
        except SextonError as e:
            error = e
            log.warning("%s was not renewed: %s", what, e)
        except Exception as e:
            error = SextonError(f"{type(e).__name__}: {e}")
            log.exception("%s was not renewed", what)
        self.record(began, error)
