"""Delete files page by page with a pool of threads; verify lease and vault before each page."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from sexton.kernel.errors import BadInput
from sexton.marks.model import FilePage, WriteToken
from sexton.recycle.pacing.model import Answer, Piece
from sexton.recycle.pacing.port import Pacer, Unpaced
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.delete_pages import ThreadDeletion
from sexton.recycle.pipeline.port import Stores
from sexton.storage.model import PAGE_KEYS, PAGE_SECONDS, VERIFIED_SECONDS, KeyOutcome, KeyResult
from sexton.storage.port import UNREACHABLE, Throttled, Vault, VaultFault, Vaults

VERIFY_TRIES = 3


class ThreadDeleter:
    """Deletes with a pool of threads that all ranges of the process share, at the pace that the stores accept."""

    leaves_requests = False

    def __init__(
        self,
        stores: Stores,
        vaults: Vaults,
        threads: int,
        pacer: Pacer | None = None,
        *,
        beside: bool = True,
        most_keys: int = PAGE_KEYS,
    ) -> None:
        """Start no thread yet.

        Args:
            stores: the files and their outcomes.
            vaults: where files are deleted.
            threads: requests at once.
            pacer: decides when a request may be sent; by default only requests that a store throttled wait.
            beside: a deletion runs in a thread of its own; otherwise in calls of ``Deletion.wait_for``.
            most_keys: the most keys of one request, even if the pacer allows more.
        """
        self.stores = stores
        self.beside = beside
        self.threads = threads
        self.pacer = pacer or Unpaced()
        self.most_keys = most_keys
        self._vaults = vaults
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="delete")
        self.in_flight: Counter[tuple[str, str]] = Counter()
        """Pages being deleted now, by (instance, vault); for the metrics of this process."""
        self._lock = threading.Lock()

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> ThreadDeletion:
        """Return a deletion of the batch's files, a context manager; it runs in parallel to the thread that claims.

        ``after``: the number of a file; only files above it are tried.
        """
        return ThreadDeletion(self, token, active_lease, after)

    def submit(self, token: WriteToken, active_lease: ActiveLease, piece: Piece) -> Future[Sequence[KeyResult]]:
        """Delete a piece in the pool; the pacer has allowed it."""
        return self._pool.submit(self._attempt, token, active_lease, piece)

    def _attempt(self, token: WriteToken, active_lease: ActiveLease, piece: Piece) -> Sequence[KeyResult]:
        """Verify lease, vault, its marker's claim and token, then delete one page.

        This is done in the pool's thread, because the page may have waited.

        If an object was absent the vault is verified again: an unmounted disk shows no object at all.
        """
        page, answer, sent_at = piece.page, None, time.monotonic()
        try:
            active_lease.renew_if_due()
            active_lease.refuse_excluded(page.vault)
            vault = self._vaults.get(token.instance, page.vault)
            self._vaults.name_claim(token.instance, page.vault, piece.claim)
            vault.prepare_delete()
            self._verify(token, active_lease, page)
            self._count_in_flight(token.instance, page.vault, 1)
            sent_at = time.monotonic()
            try:
                results = delete_page(vault, page)
            finally:
                self._count_in_flight(token.instance, page.vault, -1)
            answer = _answer(piece, results, sent_at)
        except VaultFault as e:
            if isinstance(e, Throttled):
                answer = Answer(sent_at, time.monotonic() - sent_at, piece.charge, retry_after=e.retry_after)
            elif e.reason == UNREACHABLE:
                answer = Answer(sent_at, time.monotonic() - sent_at, lost=True)
            raise
        finally:
            self.pacer.report_result(piece.charge, answer)
        if any(result.outcome is KeyOutcome.ABSENT for result in results):
            self._vaults.confirm(token.instance, page.vault)
        return results

    def _verify(self, token: WriteToken, active_lease: ActiveLease, page: FilePage) -> None:
        """Verify stops, lease and token once more, directly before a request that cannot be called back.

        Reading the vault's marker may have taken long. A database that answers slowly is asked again, so that no answer
        is older than ``VERIFIED_SECONDS`` when the request is sent.

        Raises:
            Throttled: the database stays slow; the page is tried again later, as if the store were busy.
        """
        for _ in range(VERIFY_TRIES):
            began = time.monotonic()
            active_lease.renew_if_due()
            self.stores.batches.ensure_latest(token, page.seqs)
            if time.monotonic() - began <= VERIFIED_SECONDS:
                return
        raise Throttled(page.vault, f"the database needs more than {VERIFIED_SECONDS:.0f} s to answer")

    def _count_in_flight(self, instance: str, vault: str, pages: int) -> None:
        with self._lock:
            self.in_flight[instance, vault] += pages


def delete_page(vault: Vault, page: FilePage, until: float | None = None) -> Sequence[KeyResult]:
    """Delete one page. A key that the vault refuses to send fails alone and does not hold back its neighbours.

    ``until``: when the last request may begin, in monotonic seconds; None: ``PAGE_SECONDS`` from now.
    """
    began = time.monotonic()
    limit = () if until is None else (until,)
    try:
        if any(page.written):
            return vault.delete_unchanged(page.keys, page.etags, page.written, *limit)
        return vault.delete(page.keys, page.etags, *limit)
    except BadInput as e:
        if len(page.keys) == 1:
            return [KeyResult(key=page.keys[0], outcome=KeyOutcome.FAILED, reason=str(e))]
        positions, middle, until = range(len(page.keys)), len(page.keys) // 2, until or began + PAGE_SECONDS
        halves = (page.at(positions[:middle]), page.at(positions[middle:]))
        return [result for half in halves for result in delete_page(vault, half, until)]


def _answer(piece: Piece, results: Sequence[KeyResult], sent_at: float) -> Answer:
    """Return a page's result for the pacer: how long it took, and the places at which the store throttled keys."""
    throttled = [n for n, result in enumerate(results) if result.outcome is KeyOutcome.THROTTLED]
    waits = [results[n].retry_after or 0.0 for n in throttled]
    by_place = Counter(piece.places[n] for n in throttled)
    return Answer(sent_at, time.monotonic() - sent_at, by_place, retry_after=max(waits, default=None))
