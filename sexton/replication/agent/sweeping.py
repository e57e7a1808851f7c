"""Sweep a backend: pull granted cuts, delete the binlogs up to them, and acknowledge; page by page, tablet by tablet.

A sweep stores nothing: cuts that were not acknowledged are granted again, and deleting them again does no harm.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from sexton.kernel.crash_points import reached
from sexton.replication.agent.model import MAX_MESSAGES, GrantedCut, Removed, SweepOrder, SweepOutcome, Swept
from sexton.replication.agent.port import CutSource, GrantedCutPage, MetaStore, OtherBackend
from sexton.replication.agent.removing import PAGE_KEYS, Removal

log = logging.getLogger(__name__)
WAIT_SECONDS = 1.0
_PROBLEM_COUNTS = {
    SweepOutcome.UNKNOWN: "unknown",
    SweepOutcome.QUARANTINED: "quarantined",
    SweepOutcome.FAILED: "failed",
}


class BackendSweeper:
    """Sweeps one backend, one sweep at a time: a second call waits for the end of the first."""

    def __init__(self, meta: MetaStore, cuts: CutSource, instance: str = "", keys: int = PAGE_KEYS) -> None:
        """Store the arguments.

        Args:
            meta: the node's meta store.
            cuts: the source of granted cuts.
            instance: the instance of the backend; empty: not known.
            keys: entries of a tablet that are deleted together.
        """
        self._meta, self._cuts, self._instance, self._keys = meta, cuts, instance, keys
        self._lock = threading.Lock()

    def sweep(self, heartbeat: Callable[[], None], order: SweepOrder | None = None) -> Swept:
        """Delete the granted binlogs. It can be repeated, and stopped anywhere.

        Args:
            heartbeat: called between tablets and between pages of one; it may raise to stop the sweep there.
            order: the tablets to sweep; by default all.

        Raises:
            NoStore, OtherBackend, StoreBusy: the data directory cannot be used; nothing counts as deleted.
            ApiSilent, ApiRefused: the API grants no cuts, or accepts no acknowledgement.
        """
        order = order or SweepOrder()
        if order.instance and self._instance and order.instance != self._instance:
            raise OtherBackend(f"this backend belongs to instance {self._instance}, the order to {order.instance}")
        swept = Swept()
        with self._exclusively(heartbeat):
            for page in self._pages(order):
                swept += self._sweep_page(page, heartbeat)
        log.info("swept: %s", swept.model_dump_json(exclude_defaults=True))
        return swept

    def _pages(self, order: SweepOrder) -> Iterator[GrantedCutPage]:
        after = order.after
        while True:
            with self._meta.proven():
                page = self._cuts.page(after)
            in_range = [cut for cut in page.cuts if not order.until or cut.uid <= order.until]
            yield page._replace(cuts=in_range)
            after = page.next
            if not after or (order.until and after >= order.until):
                return

    def _sweep_page(self, page: GrantedCutPage, heartbeat: Callable[[], None]) -> Swept:
        messages = tuple(f"a cut cannot be read: {item}" for item in page.refused)
        for message in messages:
            log.error("%s", message)
        swept = Swept(pages=1, failed=len(messages), said=messages[:MAX_MESSAGES])
        done = list[Removed]()
        for cut in _highest_cuts(page.cuts):
            removal = Removal(self._meta, cut, heartbeat, self._keys)
            removed = removal.run()
            done.append(removed)
            swept += removal.counts() + _count(removed)
            heartbeat()
        if done:
            self._cuts.acknowledge(done)
            reached("backend.acknowledged")
        return swept

    @contextmanager
    def _exclusively(self, heartbeat: Callable[[], None]) -> Iterator[None]:
        while not self._lock.acquire(timeout=WAIT_SECONDS):
            heartbeat()
        try:
            yield
        finally:
            self._lock.release()


def _highest_cuts(cuts: Sequence[GrantedCut]) -> Iterable[GrantedCut]:
    """Return of each tablet the cut with the highest version."""
    highest: dict[str, GrantedCut] = {}
    for cut in cuts:
        if cut.uid not in highest or cut.version > highest[cut.uid].version:
            highest[cut.uid] = cut
    return highest.values()


def _count(removed: Removed) -> Swept:
    """Return the counts of one tablet, and log its problem."""
    if removed.outcome is SweepOutcome.DONE:
        return Swept(tablets=1)
    message = f"tablet {removed.uid}: {removed.outcome}: {removed.detail}"
    log.warning("%s", message)
    return Swept(tablets=1, said=(message,), **{_PROBLEM_COUNTS[removed.outcome]: 1})
