"""The pacer of one worker process: a lane for each place, caps for each vault, both in shares with all other workers.

What the workers share is exchanged every two seconds by whoever asks next; while the database does not answer, each
goes on with what it knew.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sexton.recycle.pacing.lane import Bucket, Lane
from sexton.recycle.pacing.model import Answer, PaceReport, Rate
from sexton.recycle.pacing.policy import CAPPED_PAGE_SECONDS, FIRST_PAGE, PLACES_A_VAULT, folder, root
from sexton.recycle.pacing.port import Shares
from sexton.storage.model import PAGE_KEYS, VaultSpec

EXCHANGE_SECONDS, NEWS_SECONDS = 2.0, 1.0
"""A cap is effective after the former and the page under way; the latter holds after a refusal, or before the first."""
IDLE_SECONDS = 15.0
"""A place where nobody asked for so long is told of no more: it has no share in it."""
ROW_SECONDS = 60.0
"""How long a vault's row is believed to say where the vault is."""


@dataclass
class _Root:
    """A vault: where it is, the folders seen in it, and what an operator's cap leaves."""

    vault: tuple[str, str]
    place: str
    learns: bool
    read_at: float = float("-inf")
    folders: set[str] = field(default_factory=set)
    capped: Bucket | None = None
    used_at: float = float("-inf")


class SharedPacer:
    """Implements ``pace.port.Pacer`` for one process; safe to share between threads."""

    def __init__(self, shares: Shares, lookup: Callable[[str, str], VaultSpec], endpoint_url: str = "") -> None:
        """Nothing is read yet.

        Args:
            shares: what the workers have in common.
            lookup: returns the row of (instance, vault), or raises ``UnknownVault``.
            endpoint_url: the settings' S3 endpoint, meant where a row names none.
        """
        self._shares, self._lookup, self._endpoint_url = shares, lookup, endpoint_url
        self._worker = secrets.token_hex(8)
        self._lanes: dict[str, Lane] = {}
        self._roots: dict[tuple[str, str], _Root] = {}
        self._root_of: dict[str, _Root] = {}
        self._caps: Mapping[tuple[str, str], int] = {}
        self._workers: Mapping[str, int] = {}
        self._exchanged_at = self._now = float("-inf")
        self._news = True
        self._lock, self._exchanging = threading.Lock(), threading.Lock()

    def places(self, instance: str, vault: str, keys: Sequence[str]) -> Sequence[str]:
        its = self._root(instance, vault)
        folders = [folder(key) for key in keys] if its.learns else []
        with self._lock:
            if len(its.folders) <= PLACES_A_VAULT:
                its.folders.update(folders)
            apart = its.learns and len(its.folders) <= PLACES_A_VAULT
            found = [its.place + name for name in folders] if apart else [its.place] * len(keys)
            self._root_of.update(dict.fromkeys(found, its))
        return found

    def page_keys(self, place: str, /) -> int:
        with self._lock:
            lane, its = self._lanes.get(place), self._root_of[place]
            cap = self._cap(its)
            most = lane.page_keys() if lane else int(FIRST_PAGE) if its.learns else PAGE_KEYS
            return most if cap is None else int(min(most, max(1, cap * CAPPED_PAGE_SECONDS)))

    def ask(self, charge: Mapping[str, int], now: float) -> float:
        self._exchange(charge, now)
        with self._lock:
            its = self._use(charge, now)
            cap = self._cap(its)
            lanes = [self._lanes[place] for place in charge if its.learns]
            waits = [lane.wait(now) for lane in lanes]
            its.capped = None if cap is None else its.capped or Bucket(now)
            if its.capped is not None and cap is not None:
                its.capped.refill(cap, now)
                waits.append(its.capped.wait(cap))
            if (wait := max(waits, default=0.0)) > 0:
                return wait
            for lane in lanes:
                lane.send(charge[lane.place])
            if its.capped is not None:
                its.capped.keys -= sum(charge.values())
        return 0.0

    def told(self, charge: Mapping[str, int], answer: Answer | None) -> None:
        with self._lock:
            for place, keys in charge.items():
                if (lane := self._lanes.get(place)) is None:
                    continue
                self._news |= answer is not None and bool(answer.lost or answer.refused)
                if answer is None:
                    lane.unsent()
                elif answer.lost:
                    lane.lost(answer.sent, answer.sent + answer.seconds)
                elif refused := answer.refused.get(place, 0):
                    lane.refused(answer.sent, answer.sent + answer.seconds, keys - refused, answer.retry_after)
                else:
                    lane.took(answer.sent, answer.sent + answer.seconds, keys)

    def _root(self, instance: str, vault: str) -> _Root:
        """Return the vault as its row says, read now and then: it may have been added anew somewhere else."""
        its = self._roots.get((instance, vault))
        if its is None or self._now - its.read_at > ROW_SECONDS:
            spec = self._lookup(instance, vault)
            place = root(spec, self._endpoint_url)
            with self._lock:
                if its is None or its.place != place:
                    its = self._roots[instance, vault] = _Root((instance, vault), place, spec.kind != "local")
                its.read_at = self._now
        return its

    def _use(self, charge: Mapping[str, int], now: float) -> _Root:
        """Return the vault of a request, its lanes made where a place is new."""
        its = self._root_of[next(iter(charge))]
        self._now = its.used_at = now
        if its.learns:
            for place in charge:
                self._lanes.setdefault(place, Lane(place, now))
        return its

    def _cap(self, its: _Root) -> float | None:
        """Return this worker's share of a vault's cap, None where there is none."""
        cap = self._caps.get(its.vault)
        return None if cap is None else cap / max(1, self._workers.get(its.place, 1))

    def _exchange(self, charge: Mapping[str, int], now: float) -> None:
        """Tell and hear, unless that was a moment ago or somebody else does; not while holding the lock."""
        if now - self._exchanged_at < (NEWS_SECONDS if self._news else EXCHANGE_SECONDS):
            return
        if not self._exchanging.acquire(blocking=False):
            return
        try:
            with self._lock:
                self._use(charge, now)
                lanes = {p: lane for p, lane in self._lanes.items() if now - lane.used_at < IDLE_SECONDS}
                told = {place: lane.tell() for place, lane in lanes.items()}
                seen = {its.place for its in self._roots.values() if now - its.used_at < IDLE_SECONDS}
                rest = [PaceReport(place, None, Rate(0.0), False, learns=False) for place in sorted(seen - told.keys())]
            heard = self._shares.exchange(self._worker, [*told.values(), *rest])
            with self._lock:
                for place, lane in lanes.items():
                    shared = heard.shared.get(place) if heard else None
                    lane.hear(told[place], shared, heard.workers.get(place, 1) if heard else 1)
                if heard is not None:
                    self._caps, self._workers = heard.caps, heard.workers
                self._exchanged_at, self._news = now, not all(lane.rate.ceiling for lane in lanes.values())
        finally:
            self._exchanging.release()
