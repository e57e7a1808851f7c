"""A store that enforces a limit per place, workers that delete in it, and the table they share, on a virtual clock."""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sexton.recycle.pacing.model import Answer, PaceReport, PaceUpdate, Shared
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pacing.policy import merged
from sexton.storage.model import VaultSpec

SEEN_SECONDS = 15


class Table:
    """``PaceStore.exchange`` in memory."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shared: dict[str, Shared] = {}
        self.caps: dict[tuple[str, str], int] = {}
        self.away = False
        self._seen: dict[tuple[str, str], float] = {}

    def exchange(self, worker: str, reports: Sequence[PaceReport]) -> PaceUpdate | None:
        if self.away:
            return None
        for report in reports:
            self._seen[report.place, worker] = self.now
            if report.learns:
                self.shared[report.place] = merged(self.shared.get(report.place), report, int(self.now * 1000))
        workers = Counter(place for (place, _), at in self._seen.items() if at > self.now - SEEN_SECONDS)
        return PaceUpdate(dict(self.shared), workers, dict(self.caps))


@dataclass
class Store:
    """Takes ``limit`` keys a second per first folder, refuses a request beyond it, loses one it is too slow for."""

    limit: float
    burst_seconds: float = 1.0
    storms: Sequence[tuple[float, float]] = ()
    seconds: Callable[[int, int], float] = lambda under_way, keys: 0.05
    requests: list[tuple[float, str, int]] = field(default_factory=list)
    """(sent at, outcome, keys)"""
    under_way: int = 0
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, place: str, keys: int, now: float) -> tuple[str, float]:
        """Return how a request ends and after how long."""
        took = self.seconds(self.under_way + 1, keys)
        outcome = "done" if self._admits(place, keys, now) else "refused"
        if outcome == "done" and took > 10.0:
            outcome, took = "lost", 10.0
        self.requests.append((now, outcome, keys))
        self.under_way += 1
        return outcome, took if outcome != "refused" else 0.02

    def _admits(self, place: str, keys: int, now: float) -> bool:
        if any(begin <= now < end for begin, end in self.storms):
            return False
        had, at = self._left.get(place, (self.limit * self.burst_seconds, now))
        left = min(had + self.limit * (now - at), max(1_000.0, self.limit * self.burst_seconds))
        self._left[place] = (left - keys if left >= keys else left, now)
        return left >= keys

    def rate(self, begin: float, end: float) -> float:
        """Return keys deleted per second between two instants."""
        return sum(k for t, outcome, k in self.requests if outcome == "done" and begin <= t < end) / (end - begin)

    def throttled(self, begin: float = 0.0) -> float:
        """Return the share of requests that were refused or lost."""
        these = [outcome for t, outcome, _ in self.requests if t >= begin]
        return sum(outcome != "done" for outcome in these) / len(these)


class World:
    """Workers, each with threads and keys without end in some folders."""

    def __init__(self, store: Store, workers: int = 1, folders: int = 1, threads: int = 32) -> None:
        self.store, self.table, self.now = store, Table(), 0.0
        spec = VaultSpec(instance="shop", name="cold", kind="s3", location="bucket")
        self.pacers = [SharedPacer(self.table, lambda instance, vault: spec) for _ in range(workers)]
        for pacer in self.pacers:
            self._places = pacer.places("shop", "cold", [f"{n}/k" for n in range(folders)])
        self._free = [threads] * workers
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._asking: list[float] = [-1.0] * workers
        for n in range(workers):
            self._at(n * 0.3, lambda n=n: self._work(n))  # type: ignore[misc]

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] < until:
            self.now, _, act = heapq.heappop(self._events)
            self.table.now = self.now
            act()
        self.now = until

    def _at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    def _work(self, n: int) -> None:
        pacer, waits = self.pacers[n], []
        for place in self._places:
            while self._free[n]:
                charge = {place: pacer.page_keys(place)}
                if wait := pacer.reserve(charge, self.now):
                    waits.append(wait)
                    break
                self._send(n, place, charge)
        if waits and self._asking[n] <= self.now:
            self._asking[n] = self.now + max(min(waits), 0.005)
            self._at(self._asking[n], lambda: self._work(n))

    def _send(self, n: int, place: str, charge: dict[str, int]) -> None:
        sent, (outcome, took) = self.now, self.store.take(place, charge[place], self.now)
        self._free[n] -= 1

        def landed() -> None:
            self._free[n] += 1
            self.store.under_way -= 1
            refused = charge if outcome == "refused" else {}
            answer = Answer(sent, took, refused, lost=outcome == "lost")
            self.pacers[n].report_result(charge, answer)
            self._work(n)

        self._at(sent + took, landed)
