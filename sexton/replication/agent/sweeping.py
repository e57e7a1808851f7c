"""Pull cuts, remove what lies below them, say what is gone; page by page, one tablet after another.

Nothing is remembered between sweeps: what was not acknowledged is granted again, and removing it again does no harm.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sexton.kernel.crash_points import reached
from sexton.replication.agent.model import MOST_SAID, GrantedCut, Removed, SweepOrder, SweepOutcome, Swept
from sexton.replication.agent.port import CutSource, GrantedCutPage, MetaStore, OtherBackend
from sexton.replication.agent.removing import PAGE_KEYS, Removal

log = logging.getLogger(__name__)
WAIT_SECONDS = 1.0
_COUNTED = {SweepOutcome.UNKNOWN: "unknown", SweepOutcome.QUARANTINED: "quarantined", SweepOutcome.FAILED: "failed"}


class BackendSweeper:
    """Sweeps one backend. Who asks while a sweep is under way waits for its end."""

    def __init__(self, meta: MetaStore, cuts: CutSource, instance: str = "", keys: int = PAGE_KEYS) -> None:
        """Sweep nothing yet.

        Args:
            meta: the node's meta store.
            cuts: who grants cuts.
            instance: whose backend it is; empty: it does not say.
            keys: entries of a tablet that are removed together.
        """
        self._meta, self._cuts, self._instance, self._keys = meta, cuts, instance, keys
        self._lock = threading.Lock()

    def sweep(self, heartbeat: Callable[[], None], order: SweepOrder | None = None) -> Swept:
        """Remove what is granted. May be repeated, and stopped anywhere.

        Args:
            beat: called between tablets and between pages of one; may raise to stop there.
            order: which tablets; by default all.

        Raises:
            NoStore, OtherBackend, StoreBusy: the data directory cannot be worked in; nothing counts as gone.
            ApiSilent, ApiRefused: there are no cuts to be had, or nobody hears what is gone.
        """
        order = order or SweepOrder()
        if order.instance and self._instance and order.instance != self._instance:
            raise OtherBackend(f"this backend is of instance {self._instance}, the order is of {order.instance}")
        swept = Swept()
        with self._alone(heartbeat):
            for page in self._pages(order):
                swept += self._page(page, heartbeat)
        log.info("swept: %s", swept.model_dump_json(exclude_defaults=True))
        return swept

    def _pages(self, order: SweepOrder) -> Iterator[GrantedCutPage]:
        after = order.after
        while True:
            with self._meta.proven():
                page = self._cuts.page(after)
            within = [cut for cut in page.cuts if not order.until or cut.uid <= order.until]
            yield page._replace(cuts=within)
            after = page.next
            if not after or (order.until and after >= order.until):
                return

    def _page(self, page: GrantedCutPage, heartbeat: Callable[[], None]) -> Swept:
        said = tuple(f"a cut that cannot be read: {its}" for its in page.refused)
        for words in said:
            log.error("%s", words)
        swept, done = Swept(pages=1, failed=len(said), said=said[:MOST_SAID]), list[Removed]()
        highest: dict[str, GrantedCut] = {}
        for cut in page.cuts:
            if cut.uid not in highest or cut.version > highest[cut.uid].version:
                highest[cut.uid] = cut
        for cut in highest.values():
            removal = Removal(self._meta, cut, heartbeat, self._keys)
            its = removal.run()
            done.append(its)
            swept += removal.counted() + _counted(its)
            heartbeat()
        if done:
            self._cuts.acknowledge(done)
            reached("backend.acknowledged")
        return swept

    @contextmanager
    def _alone(self, heartbeat: Callable[[], None]) -> Iterator[None]:
        while not self._lock.acquire(timeout=WAIT_SECONDS):
            heartbeat()
        try:
            yield
        finally:
            self._lock.release()


def _counted(its: Removed) -> Swept:
    if its.outcome is SweepOutcome.DONE:
        return Swept(tablets=1)
    said = f"tablet {its.uid}: {its.outcome}: {its.detail}"
    log.warning("%s", said)
    return Swept(tablets=1, said=(said,), **{_COUNTED[its.outcome]: 1})
