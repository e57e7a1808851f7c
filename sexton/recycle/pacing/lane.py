"""One place as one worker sees it: its share of the rate, what is under way, and what its answers teach.

No clock and no lock of its own: every call names the time in seconds, and the pacer calls one at a time.
"""

from collections import deque

from sexton.recycle.pacing.model import PaceReport, Rate, RequestWindow, Shared
from sexton.recycle.pacing.policy import (
    BOLD,
    CAREFUL,
    FIRST,
    FIRST_PAGE,
    FIRST_REQUESTS,
    SLOW_SECONDS,
    grown,
    narrowed,
    page_keys,
    pause,
    refused,
    resized,
)

BURST_SECONDS = 0.25
"""How much of its share a worker that had nothing to send may catch up."""
MEASURED_SECONDS, TELLING_SECONDS, MEASURABLE_SECONDS = 5.0, 2.0, 1.0
"""What a store took is measured over the former, and says nothing over less than the latter."""
LOOK_SECONDS = 0.1
"""After this a place is asked again whether one of the requests under way has ended."""


class Bucket:
    """Keys that may be sent now; below 0 until what was sent is paid for."""

    def __init__(self, now: float) -> None:
        self.keys = 0.0
        self.at = now

    def refill(self, share: float, now: float) -> float:
        """Add what has come since the last call, at ``share`` keys per second; return how long that was."""
        seconds = max(0.0, now - self.at)
        self.at = max(self.at, now)
        self.keys = min(self.keys + share * seconds, share * BURST_SECONDS)
        return seconds

    def wait(self, share: float) -> float:
        """Return how long until something may be sent; 0: now."""
        return max(0.0, -self.keys / share)


class Lane:
    """A place that learns its rate."""

    def __init__(self, place: str, now: float) -> None:
        self.place = place
        self.rate = Rate(FIRST)
        self.workers = 1
        self.used_at = now
        self.streak = 0
        self._window, self._growth = RequestWindow(FIRST_REQUESTS, FIRST_PAGE), BOLD
        self._bucket = Bucket(now)
        self._under_way = 0
        self._limited = False
        self._began_at = now
        self._refused_at = self._narrowed_at = self._sized_at = self._until = float("-inf")
        self._took: deque[tuple[float, int]] = deque()
        self._known: Shared | None = None
        self._cut = False
        self._counts = (0, 0, 0)

    @property
    def share(self) -> float:
        """Return this worker's keys per second."""
        return self.rate.keys / self.workers

    def page_keys(self) -> int:
        """Return how many keys the next request may carry."""
        return page_keys(self._window, self.share)

    def wait(self, now: float) -> float:
        """Return how long until a request may be sent; 0: now."""
        seconds = self._bucket.refill(self.share, now)
        if self._limited and not self.streak:
            self.rate = grown(self.rate, min(seconds, 1.0))
        self._limited = False
        self.used_at = now
        if now < self._until:
            return self._until - now
        if self._under_way >= (1 if self.streak else int(self._window.requests)):
            return LOOK_SECONDS
        if self.streak:  # one request finds out whether the store takes anything again, whatever it costs
            return 0.0
        wait = self._bucket.wait(self.share)
        self._limited = wait > 0
        return wait

    def send(self, keys: int) -> None:
        """Count a request of so many keys as under way."""
        self._bucket.keys -= keys
        self._under_way += 1

    def unsent(self) -> None:
        """Take one request for never sent."""
        self._under_way -= 1

    def took(self, sent: float, now: float, keys: int) -> None:
        """Hear that all keys of a request were dealt with."""
        self._sized(sent, now, keys, full=self._under_way >= int(self._window.requests))
        self._ended(now, keys, 0)
        if self.streak and sent >= self._refused_at:
            self.streak = 0
            self._bucket.keys = max(-keys, self._bucket.keys)  # what was sent in vain is not paid for

    def refused(self, sent: float, now: float, keys: int, retry_after: float | None = None) -> None:
        """Hear that the store asked for patience, having dealt with so many of the keys."""
        if now - sent > SLOW_SECONDS:  # it ran out of time rather than of keys
            self._sized(sent, now, keys, full=False)
        self._ended(now, keys, 1)
        self._congested(sent, now, keys, retry_after)

    def lost(self, sent: float, now: float) -> None:
        """Hear that no answer came."""
        self._ended(now, 0, 1)
        if sent >= self._narrowed_at:
            self._window, self._growth = narrowed(self._window), CAREFUL
            self._narrowed_at = self._sized_at = now
        self._congested(sent, now, 0, None)

    def _sized(self, sent: float, now: float, keys: int, *, full: bool) -> None:
        """Learn from how long a request took.

        Once in the time that a request takes: those under way at the last lesson do not show what came of it. What is
        left of a page is quick whatever the store has to do.
        """
        slow = now - sent > SLOW_SECONDS
        if sent < (self._narrowed_at if slow else self._sized_at) or (not slow and 2 * keys < self.page_keys()):
            return
        if not slow and 2 * self._under_way < int(self._window.requests):
            return  # so few at once say nothing of many
        window = resized(
            self._window, now - sent, full=full, growth=CAREFUL if self._narrowed_at > float("-inf") else BOLD
        )
        if window != self._window:
            self._window, self._sized_at = window, now
            if slow:
                self._narrowed_at, self._growth = now, CAREFUL

    def _ended(self, now: float, keys: int, throttled: int) -> None:
        self._under_way -= 1
        requests, refusals, all_keys = self._counts
        self._counts = (requests + 1, refusals + throttled, all_keys + keys)
        if keys:
            self._took.append((now, keys))
        while self._took and self._took[0][0] < now - MEASURED_SECONDS:
            self._took.popleft()

    def _congested(self, sent: float, now: float, keys: int, retry_after: float | None) -> None:
        if sent < self._refused_at:  # under way when the store refused: the same congestion
            return
        self.streak = 1 if keys else self.streak + 1
        self.rate = refused(self.rate, self._measured(now), self.streak)
        self._refused_at, self._cut, self._limited = now, True, False
        self._until = now + pause(self.streak, self.workers, retry_after)
        self._took.clear()

    def _measured(self, now: float) -> float | None:
        """Return the keys per second that the store took lately over all workers, None where that says nothing.

        It is full of refusals at both ends, so what it took between them is what it takes.
        """
        since = now - max(self._refused_at, self._began_at)
        if since < MEASURABLE_SECONDS:
            return None
        if since < TELLING_SECONDS and self.rate.ceiling:
            return self.rate.keys
        # Over the shorter time too: a rate that has just returned to its ceiling was lower before.
        spans = (min(since, MEASURED_SECONDS), min(since, TELLING_SECONDS))
        return max(sum(n for at, n in self._took if at > now - span) / span for span in spans) * self.workers

    def tell(self) -> PaceReport:
        """Return what happened since the last call."""
        requests, throttled, keys = self._counts
        told = PaceReport(self.place, self._known, self.rate, self._cut, True, requests, throttled, keys)
        self._cut, self._counts = False, (0, 0, 0)
        return told

    def hear(self, told: PaceReport, shared: Shared | None, workers: int) -> None:
        """Take over what all workers know after ``told``; None: it could not be told, so it is told again."""
        if shared is None:
            self._cut |= told.cut
            requests, throttled, keys = self._counts
            self._counts = (requests + told.requests, throttled + told.throttled, keys + told.keys)
            return
        self.workers = max(1, workers)
        ours = shared.keys_per_second == round(told.rate.keys) and shared.ceiling == round(told.rate.ceiling)
        # A refusal heard of meanwhile was of the rate we had; it is told on top of this row.
        if shared != self._known and not ours and not self._cut:
            self.rate = Rate(float(shared.keys_per_second), float(shared.ceiling))
        self._known = shared
