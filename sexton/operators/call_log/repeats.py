"""Count repeated calls in memory: a caller who repeats one call leaves a row for the first and one for the rest.

Each caller has a bound of its own: none fills the log by varying its calls, and none hides the calls of another one.
Counts that are open when a process is killed are lost; the first row of each is stored.
"""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.operators.call_log.model import DONE, CallRecord

REFUSED_SECONDS = 600
"""Repeated refusals within this time are one row with a count."""
ROUTINE_SECONDS = 3_600
"""The same for calls that programs repeat: heartbeats, reports, renewals."""
MOST_REFUSED = 10
"""So many different refusals of one caller are counted apart at once; its further ones are counted together."""
MOST_ROUTINE = 50
MOST_ADDRESSES = 100
"""So many callers without identity are counted apart at once, by their addresses; further ones count as one caller."""
FURTHER_CALLS, OTHER_ADDRESSES, VARIOUS = "further calls", "other addresses", "various"
"""Texts of a row that stands for different calls: its action, its source, and a source or outcome that varies."""


class Repeated(NamedTuple):
    """Calls that were counted: the first row, and the last call with the number of those after the first."""

    begun_id: int
    call: CallRecord


@dataclass
class Window:
    """The calls of one caller and key since the first."""

    since: float
    call: CallRecord
    """The last call, as its row has it."""
    begun_id: int | None = None
    """The first call's row; None: it is being stored."""
    more: int = field(default=0)


class _Sender(NamedTuple):
    """Who has a bound: a caller with a name, or the address of one without identity."""

    who: str
    address: str


class Repeats:
    """Counts calls by caller and key, for a window of time each. Safe to share between threads."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Store the bounds.

        Args:
            seconds: how long calls are counted after the first of a key.
            most: how many keys of one caller are counted apart.
            clock: seconds, never going back.
        """
        self._seconds, self._most, self._clock = seconds, most, clock
        self._windows: dict[_Sender, dict[Hashable, Window]] = {}
        self._lock = threading.Lock()

    def count(self, key: Hashable, call: CallRecord, address: str = "") -> Window | None:
        """Count a call. Return a new window if it is the first of its key: the caller stores its row; else None.

        ``address``: of a caller without identity; empty: the call names its caller.
        """
        now = self._clock()
        with self._lock:
            sender = _Sender(call.who, address)
            if address and sender not in self._windows and self._addresses() >= MOST_ADDRESSES:
                sender, key = _Sender(call.who, ""), None
                call = _as_one_of_many(call, OTHER_ADDRESSES)
            windows = self._windows.setdefault(sender, {})
            if key not in windows and len(windows) >= self._most:
                key, call = None, _as_one_of_many(call, call.source if address else VARIOUS)
            window = windows.get(key)
            if window is not None:
                window.more, window.call = window.more + 1, call
                return None
            windows[key] = new = Window(now, call)
            return new

    def knows(self, key: Hashable, who: str) -> bool:
        """Return whether a call of a caller with a name would be counted as a repetition."""
        with self._lock:
            windows = self._windows.get(_Sender(who, ""), {})
            return key in windows or (len(windows) >= self._most and None in windows)

    def forget(self, window: Window) -> None:
        """Forget a window whose first row could not be stored: the next call is the first again."""
        with self._lock:
            self._retain(lambda each: each is not window)

    def ended(self, *, all_: bool = False) -> Sequence[Repeated]:
        """End the windows whose time is over (or all), and return those with further calls, to be stored."""
        now = self._clock()
        with self._lock:
            windows = [window for of_sender in self._windows.values() for window in of_sender.values()]
            over = [w for w in windows if w.begun_id and (all_ or now >= w.since + self._seconds)]
            ids = {w.begun_id for w in over}
            self._retain(lambda each: each.begun_id not in ids)
        return [
            Repeated(w.begun_id, w.call.model_copy(update={"times": w.more})) for w in over if w.begun_id and w.more
        ]

    def _addresses(self) -> int:
        return sum(bool(sender.address) for sender in self._windows)

    def _retain(self, stays: Callable[[Window], bool]) -> None:
        rest = {s: {k: w for k, w in windows.items() if stays(w)} for s, windows in self._windows.items()}
        self._windows = {sender: windows for sender, windows in rest.items() if windows}


def _as_one_of_many(call: CallRecord, source: str) -> CallRecord:
    """Return the call as the row has it that stands for different calls of its caller."""
    outcome = call.outcome if call.outcome == DONE else VARIOUS
    texts = {"source": source, "action": FURTHER_CALLS, "instance": "", "subject": "", "reason": "", "outcome": outcome}
    return call.model_copy(update=texts)
