"""Pace the deletes of one worker process: a lane for each place and a cap for each vault, both shared with all workers.

The first request after two seconds exchanges reports with the table that the workers share. While the database does not
answer, each worker goes on with what it knows.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sexton.recycle.pacing.lane import Bucket, Lane
from sexton.recycle.pacing.model import Answer, PaceReport, Rate
from sexton.recycle.pacing.policy import CAPPED_PAGE_SECONDS, FIRST_PAGE, PLACES_A_VAULT, first_folder
from sexton.recycle.pacing.store import PaceStore
from sexton.storage.kinds import kind_of, vault_place
from sexton.storage.model import PAGE_KEYS, VaultSpec

EXCHANGE_SECONDS, NEWS_SECONDS = 2.0, 1.0
"""Time between exchanges, and the shorter time after a refusal and until the first one. A new cap is effective after
the former and the page under way."""
IDLE_SECONDS = 15.0
"""A place without a request for so long is not reported: this worker has no share in it."""
LOOK_AGAIN_SECONDS = 0.01
"""A request that was made before the cap of its vault was known is made again."""
ROW_SECONDS = 60.0
"""How long a vault's row is cached."""


@dataclass
class _PacedVault:
    """A vault: its own place, the folders seen in it, and the bucket of an operator's cap."""

    key: tuple[str, str]
    """(instance, name)"""
    place: str
    learns: bool
    read_at: float = float("-inf")
    folders: set[str] = field(default_factory=set)
    cap_bucket: Bucket | None = None
    used_at: float = float("-inf")


class SharedPacer:
    """Decides when a request may be sent and how large it is. Safe to share between threads; ``now`` in seconds."""

    def __init__(self, shares: PaceStore, lookup: Callable[[str, str], VaultSpec], endpoint_url: str = "") -> None:
        """Create a pacer without reading anything; the workers share the table of ``shares``.

        ``lookup`` returns the row of (instance, vault), or raises ``UnknownVault``. ``endpoint_url``: of the settings,
        used where a row names none.
        """
        self._shares, self._lookup, self._endpoint_url = shares, lookup, endpoint_url
        self._worker = secrets.token_hex(8)
        self._lanes: dict[str, Lane] = {}
        self._vaults: dict[tuple[str, str], _PacedVault] = {}
        self._vault_of_place: dict[str, _PacedVault] = {}
        self._caps: Mapping[tuple[str, str], int] = {}
        self._workers: Mapping[str, int] = {}
        self._exchanged_at = self._now = float("-inf")
        self._has_news = True
        self._lock, self._exchanging = threading.Lock(), threading.Lock()

    def places(self, instance: str, vault: str, keys: Sequence[str]) -> Sequence[str]:
        """Return the place of each key; raises ``UnknownVault``."""
        paced = self._vaults.get((instance, vault))
        # The row is read again from time to time: the vault may have been added again somewhere else.
        if paced is None or self._now - paced.read_at > ROW_SECONDS:
            spec = self._lookup(instance, vault)
            place = vault_place(spec, self._endpoint_url)
            with self._lock:
                if paced is None or paced.place != place:
                    paced = _PacedVault((instance, vault), place, learns=kind_of(spec).is_service)
                    self._vaults[instance, vault] = paced
                paced.read_at = self._now
        folders = [first_folder(key) for key in keys] if paced.learns else []
        with self._lock:
            if len(paced.folders) <= PLACES_A_VAULT:
                paced.folders.update(folders)
            by_folder = paced.learns and len(paced.folders) <= PLACES_A_VAULT
            places = [paced.place + name for name in folders] if by_folder else [paced.place] * len(keys)
            self._vault_of_place.update(dict.fromkeys(places, paced))
        return places

    def page_keys(self, place: str, /) -> int:
        """Return how many keys a request whose first key is at this place may carry now."""
        with self._lock:
            lane, vault = self._lanes.get(place), self._vault_of_place[place]
            first_page = int(FIRST_PAGE) if vault.learns else PAGE_KEYS
            keys = first_page if lane is None else lane.page_keys()
            cap = self._cap_share(vault)
            return keys if cap is None else min(keys, _capped_page(cap))

    def reserve(self, charge: Mapping[str, int], now: float) -> float:
        """Return 0 where a request may be sent now; it then counts as under way until ``report_result``.

        Otherwise return the seconds after which to ask again, never 0. ``charge``: place → keys of the request; all
        places are of one vault. ``now``: in seconds.
        """
        self._exchange(charge, now)
        with self._lock:
            vault = self._touch(charge, now)
            cap = self._cap_share(vault)
            lanes = [self._lanes[place] for place in charge if vault.learns]
            waits = [lane.wait(now) for lane in lanes]
            if cap is not None and sum(charge.values()) > _capped_page(cap):
                return LOOK_AGAIN_SECONDS  # it was cut before the cap was known
            vault.cap_bucket = None if cap is None else vault.cap_bucket or Bucket(now)
            if vault.cap_bucket is not None and cap is not None:
                vault.cap_bucket.refill(cap, now)
                waits.append(vault.cap_bucket.wait(cap))
            wait = max(waits, default=0.0)
            if wait > 0:
                return wait
            for lane in lanes:
                lane.record_sent(charge[lane.place])
            if vault.cap_bucket is not None:
                vault.cap_bucket.keys -= sum(charge.values())
        return 0.0

    def report_result(self, charge: Mapping[str, int], answer: Answer | None) -> None:
        """Record how a request ended; None: it was never sent."""
        with self._lock:
            for place, keys in charge.items():
                lane = self._lanes.get(place)
                if lane is None:
                    continue
                if answer is None:
                    lane.record_unsent()
                    continue
                self._has_news |= bool(answer.lost or answer.refused)
                ended = answer.sent + answer.seconds
                refused = answer.refused.get(place, 0)
                if answer.lost:
                    lane.record_loss(answer.sent, ended)
                elif refused:
                    lane.record_refusal(answer.sent, ended, keys - refused, answer.retry_after)
                else:
                    lane.record_success(answer.sent, ended, keys)

    def _touch(self, charge: Mapping[str, int], now: float) -> _PacedVault:
        """Return the vault of a request, marked as used now; create the lanes of new places."""
        vault = self._vault_of_place[next(iter(charge))]
        self._now = vault.used_at = now
        if vault.learns:
            for place in charge:
                self._lanes.setdefault(place, Lane(place, now))
        return vault

    def _cap_share(self, vault: _PacedVault) -> float | None:
        """Return this worker's share of a vault's cap in keys per second, None where there is no cap."""
        cap = self._caps.get(vault.key)
        return None if cap is None else cap / max(1, self._workers.get(vault.place, 1))

    def _exchange(self, charge: Mapping[str, int], now: float) -> None:
        """Exchange reports, unless another thread does or did so a moment ago; call it without the lock."""
        if now - self._exchanged_at < (NEWS_SECONDS if self._has_news else EXCHANGE_SECONDS):
            return
        if not self._exchanging.acquire(blocking=False):
            return
        try:
            with self._lock:
                self._touch(charge, now)
                lanes = {place: lane for place, lane in self._lanes.items() if now - lane.used_at < IDLE_SECONDS}
                reports = {place: lane.report() for place, lane in lanes.items()}
                used = {vault.place for vault in self._vaults.values() if now - vault.used_at < IDLE_SECONDS}
            # Vaults in use that no lane reports only count for the shares of a cap.
            rateless = (PaceReport(p, None, Rate(0.0), False, learns=False) for p in sorted(used - reports.keys()))
            update = self._shares.exchange(self._worker, [*reports.values(), *rateless])
            with self._lock:
                for place, lane in lanes.items():
                    shared = update.shared.get(place) if update else None
                    workers = update.workers.get(place, 1) if update else 1
                    lane.apply(reports[place], shared, workers)
                if update is not None:
                    self._caps, self._workers = update.caps, update.workers
                self._exchanged_at, self._has_news = now, not all(lane.rate.ceiling for lane in lanes.values())
        finally:
            self._exchanging.release()


def _capped_page(cap: float) -> int:
    """Return how many keys a request may carry under a cap."""
    return int(max(1, cap * CAPPED_PAGE_SECONDS))
