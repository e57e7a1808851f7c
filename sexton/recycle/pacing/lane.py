"""Control the deletes of one worker at one place: its share of the rate, its requests under way, what answers teach.

No clock and no lock of its own: every call passes the time in seconds, and the pacer makes one call at a time.
"""

from collections import deque

from sexton.recycle.pacing.model import PaceReport, Rate, RequestWindow, Shared
from sexton.recycle.pacing.policy import (
    BOLD_GROWTH,
    CAREFUL_GROWTH,
    FIRST_PAGE,
    FIRST_RATE,
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
"""How many seconds of its share a worker may catch up after it had nothing to send."""
MEASURED_SECONDS, SHORT_MEASURED_SECONDS = 5.0, 2.0
"""Throughput is the greater one of the last 5 and the last 2 seconds."""
MEASURABLE_SECONDS = 1.0
"""Throughput over less than this is not representative."""
LOOK_SECONDS = 0.1
"""How long to wait before asking again whether one of the requests under way has ended."""


class Bucket:
    """A token bucket: the keys that may be sent now; below 0 until the keys already sent are paid for."""

    def __init__(self, now: float) -> None:
        self.keys = 0.0
        self.at = now

    def refill(self, share: float, now: float) -> float:
        """Add the keys since the last call, at ``share`` keys per second; return the seconds since then."""
        seconds = max(0.0, now - self.at)
        self.at = max(self.at, now)
        self.keys = min(self.keys + share * seconds, share * BURST_SECONDS)
        return seconds

    def wait(self, share: float) -> float:
        """Return the seconds until a request may be sent; 0: now."""
        return max(0.0, -self.keys / share)


class Lane:
    """One place whose rate is learned."""

    def __init__(self, place: str, now: float) -> None:
        self.place = place
        self.rate = Rate(FIRST_RATE)
        self.workers = 1
        self.used_at = now
        self.streak = 0
        """Congestions since the store last accepted a key."""
        self._window = RequestWindow(FIRST_REQUESTS, FIRST_PAGE)
        self._bucket = Bucket(now)
        self._under_way = 0
        self._limited = False
        """The rate was the only reason why the last request had to wait."""
        self._began_at = now
        self._refused_at = self._narrowed_at = self._resized_at = self._paused_until = float("-inf")
        self._deleted: deque[tuple[float, int]] = deque()
        """(instant, keys) of the answers in the last ``MEASURED_SECONDS``."""
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
        """Return the seconds until a request may be sent; 0: now."""
        seconds = self._bucket.refill(self.share, now)
        if self._limited and not self.streak:
            self.rate = grown(self.rate, min(seconds, 1.0))
        self._limited = False
        self.used_at = now
        if now < self._paused_until:
            return self._paused_until - now
        if self._under_way >= (1 if self.streak else int(self._window.requests)):
            return LOOK_SECONDS
        if self.streak:  # one request tests whether the store accepts anything again, whatever the bucket holds
            return 0.0
        wait = self._bucket.wait(self.share)
        self._limited = wait > 0
        return wait

    def record_sent(self, keys: int) -> None:
        """Count a request with so many keys as under way."""
        self._bucket.keys -= keys
        self._under_way += 1

    def record_unsent(self) -> None:
        """Take back the count of a request that was never sent."""
        self._under_way -= 1

    def record_success(self, sent: float, now: float, keys: int) -> None:
        """Record a request whose keys the store dealt with."""
        self._resize(sent, now, keys, full=self._under_way >= int(self._window.requests))
        self._record_end(now, keys, 0)
        if self.streak and sent >= self._refused_at:
            self.streak = 0
            self._bucket.keys = max(-keys, self._bucket.keys)  # keys that were sent in vain are not paid for

    def record_refusal(self, sent: float, now: float, keys: int, retry_after: float | None = None) -> None:
        """Record a request that the store throttled, having dealt with so many of its keys."""
        if now - sent > SLOW_SECONDS:  # the store ran out of time rather than of rate
            self._resize(sent, now, keys, full=False)
        self._record_end(now, keys, 1)
        self._record_congestion(sent, now, keys, retry_after)

    def record_loss(self, sent: float, now: float) -> None:
        """Record a request without an answer."""
        self._record_end(now, 0, 1)
        if sent >= self._narrowed_at:
            self._window = narrowed(self._window)
            self._narrowed_at = self._resized_at = now
        self._record_congestion(sent, now, 0, None)

    def _resize(self, sent: float, now: float, keys: int, *, full: bool) -> None:
        """Adapt the window to how long a request took.

        At most once in the time that a request takes: requests that were under way at the last change do not show its
        effect. A page with few keys left is quick whatever the store has to do, so it teaches nothing.
        """
        slow = now - sent > SLOW_SECONDS
        if sent < (self._narrowed_at if slow else self._resized_at):
            return
        if not slow and 2 * keys < self.page_keys():
            return
        if not slow and 2 * self._under_way < int(self._window.requests):
            return  # so few requests at once teach nothing about many
        growth = CAREFUL_GROWTH if self._narrowed_at > float("-inf") else BOLD_GROWTH
        window = resized(self._window, now - sent, full=full, growth=growth)
        if window != self._window:
            self._window, self._resized_at = window, now
            if slow:
                self._narrowed_at = now

    def _record_end(self, now: float, keys: int, throttled: int) -> None:
        self._under_way -= 1
        requests, throttled_requests, all_keys = self._counts
        self._counts = (requests + 1, throttled_requests + throttled, all_keys + keys)
        if keys:
            self._deleted.append((now, keys))
        while self._deleted and self._deleted[0][0] < now - MEASURED_SECONDS:
            self._deleted.popleft()

    def _record_congestion(self, sent: float, now: float, keys: int, retry_after: float | None) -> None:
        if sent < self._refused_at:  # it was under way when the store refused: the same congestion
            return
        self.streak = 1 if keys else self.streak + 1
        self.rate = refused(self.rate, self._measured(now), self.streak)
        self._refused_at, self._cut, self._limited = now, True, False
        self._paused_until = now + pause(self.streak, self.workers, retry_after)
        self._deleted.clear()

    def _measured(self, now: float) -> float | None:
        """Return the keys per second that the store accepted lately over all workers, None where it is not known.

        The time since the last refusal has a refusal at both ends, so the store's throughput between them is its limit.
        """
        seconds = now - max(self._refused_at, self._began_at)
        if seconds < MEASURABLE_SECONDS:
            return None
        if seconds < SHORT_MEASURED_SECONDS and self.rate.ceiling:
            return self.rate.keys
        # Over the shorter time too: a rate that has just returned to its ceiling was lower before.
        spans = (min(seconds, MEASURED_SECONDS), min(seconds, SHORT_MEASURED_SECONDS))
        throughputs = [sum(keys for at, keys in self._deleted if at > now - span) / span for span in spans]
        return max(throughputs) * self.workers

    def report(self) -> PaceReport:
        """Return the counts and the rate since the last report."""
        requests, throttled, keys = self._counts
        report = PaceReport(self.place, self._known, self.rate, self._cut, True, requests, throttled, keys)
        self._cut, self._counts = False, (0, 0, 0)
        return report

    def apply(self, report: PaceReport, shared: Shared | None, workers: int) -> None:
        """Adopt what all workers that share the place know after a report.

        ``shared``: the row of the place; None: the exchange failed, so the next report repeats this one.
        """
        if shared is None:
            self._cut |= report.cut
            requests, throttled, keys = self._counts
            self._counts = (requests + report.requests, throttled + report.throttled, keys + report.keys)
            return
        self.workers = max(1, workers)
        reported_rate = (round(report.rate.keys), round(report.rate.ceiling))
        is_own_rate = (shared.keys_per_second, shared.ceiling) == reported_rate
        # A refusal since the report was at the rate we had; the next report applies it on top of this row.
        if shared != self._known and not is_own_rate and not self._cut:
            self.rate = Rate(float(shared.keys_per_second), float(shared.ceiling))
        self._known = shared
