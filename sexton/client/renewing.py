"""When a protection is renewed, and when it must be taken for lost; for both clients.

Pure: instants are seconds of a clock that never goes back, each from before the request was sent that was answered.
"""

from dataclasses import dataclass, field

from sexton.kernel.errors import SextonError

DEFAULT_TTL_SECONDS = 1_200
RENEWALS = 3
"""A protection is renewed so many times within its own length."""
MARGIN = 0.1
"""The last part of its length is not relied on: clocks differ, and the caller needs time to stop."""
RETRY_SECONDS = 1.0
AGAIN_SECONDS = 1.0
"""A caller that goes on although it was stopped is stopped again so often."""
PHASES = 4
"""Phases of a request that may each take its whole timeout: for a connection, to connect, to send, to read."""
SHORTEST_SECONDS = 0.2


@dataclass
class Renewals:
    """One protection that is being renewed."""

    ttl_seconds: float
    renewed_at: float
    _failed: str = field(default="", init=False)

    def wait(self, now: float) -> float:
        """Return for how long to wait until the next renewal: after a failure for less, and never beyond its end."""
        due = self.renewed_at + self.ttl_seconds / RENEWALS
        pause = min(RETRY_SECONDS, self.ttl_seconds / 20) if self._failed else due - now
        return max(0.0, min(pause, self.left(now)))

    def timeout(self, now: float) -> float:
        """Return the timeout of each phase of a renewal."""
        return max(SHORTEST_SECONDS, self.left(now) / PHASES)

    def left(self, now: float) -> float:
        """Return for how long it can be relied on."""
        return max(0.0, self.renewed_at + self.ttl_seconds * (1 - MARGIN) - now)

    def lost(self, now: float) -> str:
        """Return why nobody may rely on it any more; empty as long as one may."""
        if self.left(now) > 0:
            return ""
        return f"it could not be renewed in time: {self._failed or 'nothing was answered'}"

    def told(self, began: float, error: SextonError | None) -> str:
        """Take what came of a renewal that began then; return why it is lost, if it is."""
        if error is None:
            self.renewed_at, self._failed = began, ""
            return ""
        self._failed = str(error)
        return "" if error.passes or type(error) is SextonError else str(error)
