"""Count repeated calls in memory: a caller who repeats one call leaves a row for the first and one for the rest.

Counts that are open when a process is killed are lost; the first row of each is stored.
"""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.operators.call_log.model import CallRecord

REFUSED_SECONDS = 600
"""Repeated refusals within this time are one row with a count."""
ROUTINE_SECONDS = 3_600
"""The same for calls that programs repeat: heartbeats, reports, renewals."""
MOST_REFUSED = 200
"""So many different refusals are counted apart at once; all further ones are counted together."""
MOST_ROUTINE = 5_000


class Repeated(NamedTuple):
    """Calls that were counted: the first row, and the last call with the number of those after the first."""

    begun_id: int
    call: CallRecord


@dataclass
class Window:
    """The calls of one key since the first."""

    since: float
    call: CallRecord
    begun_id: int | None = None
    """The first call's row; None: it is being stored."""
    more: int = field(default=0)


class Repeats:
    """Counts calls by key, for a window of time each. Safe to share between threads."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Store the bounds.

        Args:
            seconds: how long calls are counted after the first of a key.
            most: how many keys are counted apart.
            clock: seconds, never going back.
        """
        self._seconds, self._most, self._clock = seconds, most, clock
        self._windows: dict[Hashable, Window] = {}
        self._lock = threading.Lock()

    def count(self, key: Hashable, call: CallRecord) -> Window | None:
        """Count a call. Return a new window if it is the first of its key: the caller stores its row; else None."""
        now = self._clock()
        with self._lock:
            if key not in self._windows and len(self._windows) >= self._most:
                key = None
            window = self._windows.get(key)
            if window is not None:
                window.more, window.call = window.more + 1, call
                return None
            self._windows[key] = new = Window(now, call)
            return new

    def forget(self, window: Window) -> None:
        """Forget a window whose first row could not be stored: the next call is the first again."""
        with self._lock:
            self._windows = {key: w for key, w in self._windows.items() if w is not window}

    def ended(self, *, all_: bool = False) -> Sequence[Repeated]:
        """End the windows whose time is over (or all), and return those with further calls, to be stored."""
        now = self._clock()
        with self._lock:
            over = [k for k, w in self._windows.items() if w.begun_id and (all_ or now >= w.since + self._seconds)]
            windows = [self._windows.pop(key) for key in over]
        return [
            Repeated(w.begun_id, w.call.model_copy(update={"times": w.more})) for w in windows if w.begun_id and w.more
        ]
