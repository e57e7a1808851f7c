"""Decide how fast to delete: an AIMD control (additive increase, multiplicative decrease), like TCP's.

Each *place* has one rate in keys per second, which its workers share; each worker also has a window: how many requests
it has under way there, and how many keys one of them carries. ``Lane`` feeds this module with answers and time.

1. Slow start: a rate begins at ``FIRST_RATE`` and doubles every second in which it limits, up to the first refusal.
2. Decrease: at a refusal the rate falls once, to a share of the measured throughput. Refusals of requests that were
   under way belong to the same congestion. The throughput becomes the ceiling (TCP's slow start threshold). While the
   store accepts nothing at all, the rate halves with each congestion, and the pauses between requests double.
3. Recovery: the rate quickly closes the gap to a little below the ceiling.
4. Increase: from there it grows slowly, and faster the further it is beyond the ceiling, because a store that splits
   its partitions takes more after a while.
5. Window: quick answers widen it, slow ones narrow it; an answer that never comes halves it.
6. Workers: each sends its share, rate / workers. They exchange one row per place: a congestion is applied once, and an
   increase counts only on top of the row that it began from, so that two workers' increases do not add up.

Pure: no clock, no I/O.
"""

from collections.abc import Iterable

from sexton.recycle.pacing.model import PaceReport, Rate, RequestWindow, Shared
from sexton.storage.kinds import vault_place
from sexton.storage.model import PAGE_KEYS, VaultSpec
from sexton.storage.port import UNREACHABLE

FIRST_RATE = 3_500.0
"""Keys per second with which a place begins: S3 accepts this many per partition before it splits one."""
LOWEST_RATE, HIGHEST_RATE = 10.0, 1_000_000.0
"""Keys per second. At the lowest rate deletes still go on; at the highest nothing is limited."""
DOUBLING_SECONDS = 1.0
"""Until the first refusal a rate that limits doubles in this time."""
MEASURED_SHARE, UNMEASURED_SHARE = 0.9, 0.6
"""The share of a rate that remains after a refusal, with and without a measurement of the store's throughput."""
MEASURED_LEAST = 0.7
"""A measurement below this share of the rate is not trusted: a worker that paused measures too little."""
NEAR_CEILING, RECOVERY = 0.95, 0.2
"""Recovery ends at this share of the ceiling; each second it closes this share of the gap."""
PROBE, ACCELERATION = 0.0008, 0.025
"""After recovery a rate grows per second by this share of itself, and by this share of its excess over the ceiling."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.25, 8.0
"""The shortest and longest pause after refusals in a row: each pause is twice as long as the one before."""
PATIENCE_SECONDS = 60.0
"""The longest ``Retry-After`` that is respected; after it the store is tried again even if it named more."""
LEAST_PAGE = 125
PAGE_SECONDS = 0.15
"""A request carries the keys of this many seconds of a worker's rate, but between ``LEAST_PAGE`` and ``PAGE_KEYS``."""
CAPPED_PAGE_SECONDS = 1.0
"""A request carries at most the keys of this many seconds of an operator's cap."""
BOLD_GROWTH, CAREFUL_GROWTH = 1.5, 1.1
"""Factors by which a window grows: before the first request that was too slow, and after it."""
FIRST_PAGE = 250.0
FIRST_REQUESTS, MOST_REQUESTS = 8.0, 64.0
QUICK_SECONDS, SLOW_SECONDS = 1.0, 3.0
"""Quicker requests widen the window, slower ones narrow it; the client abandons a request after 10 s."""
THROTTLED = "THROTTLED"
"""Reason of the fault of a vault that has throttled every request for ``GIVE_UP_SECONDS``."""
GIVE_UP_SECONDS = 120.0
UNREACHABLE_TRIES = 3
"""How many tries a vault gets that does not answer; each may last until its time-out."""
BROKEN_TRIES = 32
"""How many requests in a row may fail as a whole in a vault whose marker can be read: a page of 1,000 keys is divided
ten times until the key that is the reason fails alone."""
PLACES_A_VAULT = 64
"""How many first folders of one vault are places of their own; a vault with more folders is one place."""


def grown(rate: Rate, seconds: float) -> Rate:
    """Return the rate after some seconds in which only the rate limited the requests."""
    keys, ceiling = rate
    if not ceiling:
        keys *= 2.0 ** (seconds / DOUBLING_SECONDS)
    elif keys < NEAR_CEILING * ceiling:
        keys += (ceiling - keys) * min(1.0, RECOVERY * seconds)
    else:
        keys += (keys * PROBE + max(0.0, keys - ceiling) * ACCELERATION) * seconds
    return Rate(min(keys, HIGHEST_RATE), ceiling)


def refused(rate: Rate, measured: float | None, streak: int) -> Rate:
    """Return the rate after a congestion at a rate.

    ``measured``: keys per second that the store accepted lately, None where that is not known. ``streak``: congestions
    since it last accepted a key, this one included.
    """
    keys, ceiling = rate
    if streak > 1:  # it refuses everything, which does not show the rate that it will accept again
        return Rate(max(LOWEST_RATE, keys / 2), ceiling)
    if not ceiling:  # slow start just passed this rate, so the measurement is closer to what the store accepts
        return Rate(max(LOWEST_RATE, min(keys, measured or keys) * UNMEASURED_SHARE), keys)
    if measured is None:  # too soon after the last congestion: the ceiling may be out of date
        return Rate(max(LOWEST_RATE, keys * UNMEASURED_SHARE), max(keys, ceiling * MEASURED_LEAST))
    ceiling = min(keys, max(measured, keys * MEASURED_LEAST))
    return Rate(max(LOWEST_RATE, ceiling * MEASURED_SHARE), ceiling)


def pause(streak: int, workers: int = 1, retry_after: float | None = None) -> float:
    """Return the seconds in which nothing is sent after the last of ``streak`` congestions; workers take turns.

    The pause is as many times as long as there are ``workers`` that share the place. ``retry_after``: seconds that the
    store asked to wait, None where it named none.
    """
    backoff = min(LAST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(streak - 1, 10) * workers)
    return max(backoff, min(retry_after or 0.0, PATIENCE_SECONDS))


def resized(window: RequestWindow, seconds: float, *, full: bool, growth: float) -> RequestWindow:
    """Return the window after a request that took some seconds; it grows at most by the factor ``growth``.

    ``full``: whether as many requests were under way as the window allows.
    """
    if seconds > SLOW_SECONDS:
        return narrowed(window, 0.7)
    if seconds > QUICK_SECONDS:
        # The same keys in more and smaller requests: stores process requests in parallel, keys of one request in turn.
        requests = min(MOST_REQUESTS, window.requests * 1.25) if full else window.requests
        keys = max(float(LEAST_PAGE), window.keys * window.requests / requests)
        return window if keys == window.keys else RequestWindow(requests, keys)
    if full and window.requests < MOST_REQUESTS:
        return RequestWindow(min(MOST_REQUESTS, window.requests * growth), window.keys)
    return RequestWindow(window.requests, min(float(PAGE_KEYS), window.keys * growth))


def narrowed(window: RequestWindow, share: float = 0.5) -> RequestWindow:
    """Return a narrower window: after a slow request first fewer keys; after a lost one half of keys and requests."""
    smaller = RequestWindow(window.requests, max(float(LEAST_PAGE), window.keys * share))
    if share > 0.5 and smaller.keys < window.keys:
        return smaller
    return RequestWindow(max(1.0, window.requests * share), smaller.keys)


def page_keys(window: RequestWindow, share: float) -> int:
    """Return how many keys the next request may carry; ``share``: this worker's keys per second."""
    return int(min(window.keys, max(LEAST_PAGE, share * PAGE_SECONDS), PAGE_KEYS))


def merged(stored: Shared | None, report: PaceReport, now: int) -> Shared:
    """Return the row of a place after one worker's report; ``now`` in ms since 1970.

    A congestion is applied once: a worker that did not know of another's refusal saw the same congestion, and adopts
    the stored row. An increase counts only on top of the row that it began from, so that two workers' do not add up.
    """
    reported = Shared(
        keys_per_second=round(report.rate.keys),
        ceiling=round(report.rate.ceiling),
        throttled_at=now if report.cut else (stored.throttled_at if stored else None),
        updated_at=now,
    )
    if stored is None:
        return reported
    if report.known is None or report.known.throttled_at != stored.throttled_at:
        return stored
    if report.cut:
        return reported
    changed = reported.keys_per_second != stored.keys_per_second
    return reported if changed and report.known == stored else stored


class Patience:
    """How long one deletion continues with a vault that accepts nothing; instants: seconds on the deletion's clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._tries = self._broken = 0
        self._tried_at = float("-inf")

    def taken(self) -> None:
        """Record that the store accepted a key."""
        self._since, self._tries, self._broken = None, 0, 0

    def broken(self) -> bool:
        """Record that a request failed as a whole, though the vault answers; return whether to give the vault up."""
        self._broken += 1
        return self._broken > BROKEN_TRIES

    def refused(self, now: float) -> str | None:
        """Record that the store throttled a request; return the reason to give the vault up, None: continue."""
        if self._since is None:
            self._since = now
        return THROTTLED if now - self._since >= GIVE_UP_SECONDS else None

    def lost(self, sent: float, now: float) -> str | None:
        """Record that a request had no answer; return the reason to give the vault up, None: continue."""
        if sent > self._tried_at:  # requests that were under way together are one try
            self._tries, self._tried_at = self._tries + 1, now
        return UNREACHABLE if self._tries >= UNREACHABLE_TRIES else None


def vault_of(place: str, vaults: Iterable[VaultSpec], endpoint_url: str) -> tuple[str, str] | None:
    """Return (instance, vault) of a place, or None if the vault is no longer registered."""
    vaults_by_root = {vault_place(v, endpoint_url): (v.instance, v.name) for v in vaults}
    # Roots may share a beginning, but no vault contains another: the longest root that matches is the right one.
    longest = max((r for r in vaults_by_root if place.startswith(r)), key=len, default="")
    return vaults_by_root.get(longest)


def first_folder(key: str) -> str:
    """Return the first folder of a key with its ``/``, empty for a key outside of any folder."""
    first, slash, _ = key.partition("/")
    return first + slash if slash else ""
