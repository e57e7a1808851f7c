"""Compute the rate of a running round over a recent window, and from it the time that is left. Pure."""

from collections import deque

from sexton.insight.views import RoundCounts

WINDOW_MS = 60_000
"""Long enough for a chunk of marks to be listed, claimed and deleted; short enough to follow a store that slows."""
SHORTEST_MS = 1_000
"""Two samples that are closer to each other say nothing about a rate."""


class RecentRate:
    """The newest samples of one round: how long it had run (ms), and how many objects were gone."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._samples: deque[tuple[int, int]] = deque()

    def add(self, counts: RoundCounts) -> None:
        """Add a sample; forget those that the window no longer needs."""
        self._samples.append((counts.elapsed_ms, counts.objects))
        while len(self._samples) > 2 and self._samples[1][0] <= counts.elapsed_ms - self._window_ms:
            self._samples.popleft()

    @property
    def per_second(self) -> float | None:
        """Return objects per second within the window; None: there are too few samples."""
        if not self._samples:
            return None
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return (after - before) * 1000 / (ended - began) if ended - began >= SHORTEST_MS else None

    def seconds_left(self, counts: RoundCounts) -> float | None:
        """Return the remaining time at this rate; None: nothing is known of it, or nothing moves."""
        rate = None if counts.exceeds_expected else self.per_second
        return max(0, counts.expected - counts.objects) / rate if rate else None
