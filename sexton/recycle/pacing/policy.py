"""How fast to delete: what a refusal, a success and time do to a rate, to the requests under way and to their size.

Pure: no clock, no I/O. Fast up to the first refusal, down once for each congestion, quickly back to a little below the
rate that was refused, then slowly beyond it, faster the longer nothing is refused (a store splits its partitions).
"""

import re

from sexton.kernel.errors import BadInput
from sexton.recycle.pacing.model import PaceReport, Rate, RequestWindow, Shared
from sexton.storage.model import PAGE_KEYS, VaultSpec
from sexton.storage.policy import canonical_endpoint
from sexton.storage.port import UNREACHABLE

FIRST = 3_500.0
"""Keys per second a place begins with: what S3 takes per partition before it splits one."""
FLOOR, LIMIT = 10.0, 1_000_000.0
"""No rate is below the one, so that nothing stops for ever, or above the other, where nothing is bounded any more."""
DOUBLING_SECONDS = 1.0
"""Until the first refusal a rate that is used doubles in this time."""
MEASURED_SHARE, UNMEASURED_SHARE = 0.9, 0.6
"""What remains of a rate after a refusal: where the store's own rate could be measured, and where it could not."""
MEASURED_LEAST = 0.7
"""A measurement is not believed below this share of the rate: a worker that paused saw less than the store takes."""
NEAR, RECOVERY = 0.95, 0.2
"""A rate returns to this share of its ceiling, closing this share of the gap in a second."""
PROBE, ACCELERATION = 0.0008, 0.025
"""Then it grows by this share of itself in a second; beyond the ceiling, also by this share of the distance."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.25, 8.0
"""Waits between requests that a store refuses one after the other: twice as long each time."""
PATIENCE_SECONDS = 60.0
"""The longest ``Retry-After`` that is honoured; a store that means more is asked once in a while."""
LEAST_PAGE = 125
PAGE_SECONDS = 0.15
"""A request carries this much of a worker's rate, within ``LEAST_PAGE`` and ``PAGE_KEYS``."""
CAPPED_PAGE_SECONDS = 1.0
"""A request carries at most this much of what an operator allows."""
BOLD, CAREFUL = 1.5, 1.1
"""By how much a window grows: until a request was too slow for the first time, and after that."""
FIRST_PAGE = 250.0
FIRST_REQUESTS, MOST_REQUESTS = 8.0, 64.0
QUICK_SECONDS, SLOW_SECONDS = 1.0, 3.0
"""Requests quicker than the one allow for more at once, those slower than the other for fewer: they end at 10 s."""
THROTTLED = "THROTTLED"
"""Why a vault is left alone that has taken nothing for ``GIVE_UP_SECONDS``, asking for patience."""
GIVE_UP_SECONDS = 120.0
UNREACHABLE_TRIES = 3
"""How often a vault that does not answer is tried; each try may last as long as a time-out."""
PLACES_A_VAULT = 64
"""First folders told apart in one vault; where there are more, the vault is one place."""


def grown(rate: Rate, seconds: float) -> Rate:
    """Return the rate after so many seconds in which it was all that kept requests back."""
    keys, ceiling = rate
    if not ceiling:
        keys *= 2.0 ** (seconds / DOUBLING_SECONDS)
    elif keys < NEAR * ceiling:
        keys += (ceiling - keys) * min(1.0, RECOVERY * seconds)
    else:
        keys += (keys * PROBE + max(0.0, keys - ceiling) * ACCELERATION) * seconds
    return Rate(min(keys, LIMIT), ceiling)


def refused(rate: Rate, measured: float | None, streak: int) -> Rate:
    """Return the rate after a congestion.

    Args:
        rate: at which the store refused.
        measured: keys per second it took lately, None where that says nothing.
        streak: congestions since it last took anything, this one included.
    """
    keys, ceiling = rate
    if streak > 1:  # it refuses everything: that says nothing of the rate it will take again
        return Rate(max(FLOOR, keys / 2), ceiling)
    if not ceiling:  # what it took meanwhile says something about a rate that was just passing through
        return Rate(max(FLOOR, min(keys, measured or keys) * UNMEASURED_SHARE), keys)
    if measured is None:  # so soon after the last one: the ceiling may be a memory of better days
        return Rate(max(FLOOR, keys * UNMEASURED_SHARE), max(keys, ceiling * MEASURED_LEAST))
    ceiling = min(keys, max(measured, keys * MEASURED_LEAST))
    return Rate(max(FLOOR, ceiling * MEASURED_SHARE), ceiling)


def pause(streak: int, workers: int = 1, retry_after: float | None = None) -> float:
    """Return how many seconds nothing is sent after the last of ``streak`` congestions; workers take turns."""
    own = min(LAST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(streak - 1, 10) * workers)
    return max(own, min(retry_after or 0.0, PATIENCE_SECONDS))


def resized(window: RequestWindow, seconds: float, *, full: bool, growth: float) -> RequestWindow:
    """Return the window after a request that took so long.

    Args:
        window: as it was.
        seconds: how long the request took.
        full: whether all that the window allows was under way.
        growth: by which factor it may grow.
    """
    if seconds > SLOW_SECONDS:
        return narrowed(window, 0.7)
    if seconds > QUICK_SECONDS:
        # As many keys, in more and smaller requests: stores work on requests side by side, on their keys in turn.
        more = min(MOST_REQUESTS, window.requests * 1.25) if full else window.requests
        keys = max(float(LEAST_PAGE), window.keys * window.requests / more)
        return window if keys == window.keys else RequestWindow(more, keys)
    if full and window.requests < MOST_REQUESTS:
        return RequestWindow(min(MOST_REQUESTS, window.requests * growth), window.keys)
    return RequestWindow(window.requests, min(float(PAGE_KEYS), window.keys * growth))


def narrowed(window: RequestWindow, share: float = 0.5) -> RequestWindow:
    """Return the window after a slow request, smaller ones first, or (by half, both) after one that was lost."""
    smaller = RequestWindow(window.requests, max(float(LEAST_PAGE), window.keys * share))
    if share > 0.5 and smaller.keys < window.keys:
        return smaller
    return RequestWindow(max(1.0, window.requests * share), smaller.keys)


def page_keys(window: RequestWindow, share: float) -> int:
    """Return how many keys the next request may carry, at ``share`` keys per second of this worker."""
    return int(min(window.keys, max(LEAST_PAGE, share * PAGE_SECONDS), PAGE_KEYS))


def merged(stored: Shared | None, told: PaceReport, now: int) -> Shared:
    """Return the row of a place after one worker has told about it.

    A refusal is written once: who did not know of somebody else's saw the same congestion and takes over that one. An
    increase holds only on top of the row it started from, so that two workers' do not add up.
    """
    mine = Shared(
        keys_per_second=round(told.rate.keys),
        ceiling=round(told.rate.ceiling),
        throttled_at=now if told.cut else (stored.throttled_at if stored else None),
        updated_at=now,
    )
    if stored is None:
        return mine
    if told.known is None or told.known.throttled_at != stored.throttled_at:
        return stored
    if told.cut:
        return mine
    changed = mine.keys_per_second != stored.keys_per_second
    return mine if changed and told.known == stored else stored


class Patience:
    """How long one sweep goes on with a vault that takes nothing; instants are seconds on the sweep's clock."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._tries = 0
        self._tried_at = float("-inf")

    def taken(self) -> None:
        """Hear that the store took something."""
        self._since, self._tries = None, 0

    def refused(self, now: float) -> str | None:
        """Hear that the store asked for patience; return why to give it up, None to go on."""
        if self._since is None:
            self._since = now
        return THROTTLED if now - self._since >= GIVE_UP_SECONDS else None

    def lost(self, sent: float, now: float) -> str | None:
        """Hear that the store did not answer what was sent at an instant; return why to give it up, None to go on."""
        if sent > self._tried_at:  # what was under way together is one try
            self._tries, self._tried_at = self._tries + 1, now
        return UNREACHABLE if self._tries >= UNREACHABLE_TRIES else None


def root(spec: VaultSpec, endpoint_url: str) -> str:
    """Return the place of a whole vault; ``endpoint_url`` is meant where its row names none."""
    if spec.kind == "local":
        return f"file:{spec.location.rstrip('/')}/{spec.prefix}"
    return f"{canonical_endpoint(spec.endpoint or endpoint_url) or 'aws'}/{spec.location}/{spec.prefix}"


def folder(key: str) -> str:
    """Return the first folder of a key, empty where it lies in none."""
    first, slash, _ = key.partition("/")
    return first + slash if slash else ""


def keys_per_second(text: str) -> int:
    """Return the number of ``500/s``.

    Raises:
        BadInput: it is not of that form, or 0.
    """
    found = re.fullmatch(r"([0-9]{1,7})/s", text)
    if found is None or int(found[1]) == 0:
        raise BadInput(
            f"{text!r} is no pace; write keys per second from 1/s to 9999999/s, e.g. 500/s "
            "(to delete nothing at all: sexton stop; to take a cap back: --clear)"
        )
    return int(found[1])
