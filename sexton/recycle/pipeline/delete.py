"""Delete files page by page with a pool of threads; verify lease and vault before each page.

The pages of one batch are scheduled beside the thread that claims and settles, so that the store is busy while rows are
written: several in parallel, at the pacer's rate, retried while a store throttles.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Self

from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.marks.model import FilePage, Reason, WriteToken
from sexton.recycle.pacing.model import Answer, Piece
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pacing.policy import THROTTLED, Patience
from sexton.recycle.pipeline.active_lease import POLL_SECONDS, ActiveLease
from sexton.recycle.pipeline.parts import Stores
from sexton.storage.model import PAGE_SECONDS, VERIFIED_SECONDS, KeyOutcome, KeyResult
from sexton.storage.port import BAD_REPLY, UNREACHABLE, Throttled, UnknownVault, Vault, VaultFault, Vaults

log = logging.getLogger(__name__)
AHEAD_PAGES = 32
"""Pages read ahead, so that a throttled place does not delay the others."""
VERIFY_TRIES = 3
TRIES_ALONE = 2
"""How often a file is tried alone whose request fails as a whole."""
QUICK_SECONDS = 8.0
"""A request that fails later has timed out: the store is at fault, and not one of its keys."""
INTERNAL_ERROR = "InternalError"
"""How the reason of a key begins whose request the store answered with a 500."""


class PageFault(Exception):
    """A request failed as a whole in a vault that answers otherwise: one of its keys may be the reason."""

    def __init__(self, fault: VaultFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class ThreadDeleter:
    """Deletes with a pool of threads that all ranges of the process share, at the pace that the stores accept."""

    leaves_requests = False

    def __init__(
        self,
        stores: Stores,
        vaults: Vaults,
        threads: int,
        pacer: SharedPacer,
    ) -> None:
        """Start no thread yet.

        Args:
            stores: the files and their outcomes.
            vaults: where files are deleted.
            threads: requests at once.
            pacer: decides when a request may be sent.
        """
        self.stores = stores
        self.threads = threads
        self.pacer = pacer
        self._vaults = vaults
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="delete")
        self.in_flight: Counter[tuple[str, str]] = Counter()
        """Pages being deleted now, by (instance, vault); for the metrics of this process."""
        self._lock = threading.Lock()

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> "ThreadDeletion":
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

        If an object was absent the vault is verified again: an unmounted disk shows no object at all. So it is if the
        request failed as a whole before its time-out: ``PageFault`` says that the vault answers.
        """
        page, answer, sent_at, is_sent = piece.page, None, time.monotonic(), False
        try:
            active_lease.renew_if_due()
            active_lease.refuse_excluded(page.vault)
            vault = self._vaults.get(token.instance, page.vault)
            self._vaults.name_claim(token.instance, page.vault, piece.claim)
            vault.prepare_delete()
            self._verify(token, active_lease, page)
            self._count_in_flight(token.instance, page.vault, 1)
            sent_at, is_sent = time.monotonic(), True
            try:
                results = delete_page(vault, page)
            finally:
                self._count_in_flight(token.instance, page.vault, -1)
            throttled = [n for n, result in enumerate(results) if result.outcome is KeyOutcome.THROTTLED]
            by_place = Counter(piece.places[n] for n in throttled)
            longest_wait = max((results[n].retry_after or 0.0 for n in throttled), default=None)
            answer = Answer(sent_at, time.monotonic() - sent_at, by_place, retry_after=longest_wait)
        except VaultFault as e:
            if isinstance(e, Throttled):
                answer = Answer(sent_at, time.monotonic() - sent_at, piece.charge, retry_after=e.retry_after)
            elif e.reason == UNREACHABLE:
                answer = Answer(sent_at, time.monotonic() - sent_at, lost=True)
            is_quick = time.monotonic() - sent_at < QUICK_SECONDS
            if is_sent and is_quick and e.reason in (UNREACHABLE, BAD_REPLY) and not isinstance(e, Throttled):
                self._vaults.confirm(token.instance, page.vault)
                raise PageFault(e) from e
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


class ThreadDeletion:
    """One deletion of a batch's undone files, while more of them are claimed. Implements ``parts.Deletion``.

    Outcomes are stored page by page. A vault that cannot be verified is skipped: its files stay undone, which is no
    failure. Requests that a store throttles or does not answer are retried with growing waits; a vault that accepts
    nothing for long is skipped too.
    """

    def __init__(self, pool: "ThreadDeleter", token: WriteToken, active_lease: ActiveLease, after: int = 0) -> None:
        self._pool, self._token, self._active_lease = pool, token, active_lease
        self._waiting: deque[Piece] = deque()
        self._in_flight: dict[Future[Sequence[KeyResult]], tuple[Piece, float]] = {}
        self._patience: dict[str, Patience] = {}
        self._accepted_at: dict[str, float] = {}
        self._faulty = {vault for vault, reason in active_lease.faults.items() if reason == THROTTLED}
        self._read_to = self._claimed_to = self.tried_to = after
        self._all_tried, self._stopped = False, False
        self._work, self._progress = threading.Event(), threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="deletion")
        self._running: Future[None] = Future()

    def __enter__(self) -> Self:
        self._running = self._thread.submit(copy_context().run, self._run)  # for the context of its log records
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Stop, unless it has ended: pages in flight cannot be called back, so their outcomes are still stored."""
        self._stopped = True
        self._work.set()
        self._thread.shutdown()

    def release_up_to(self, to: int) -> None:
        self._raise_failure()
        self._claimed_to = to
        self._work.set()

    def wait_for(self, to: int) -> None:
        while not self.has_tried(to):
            self._progress.wait(POLL_SECONDS)
            self._progress.clear()
            self._active_lease.keep_alive()

    def has_tried(self, to: int) -> bool:
        self._raise_failure()
        return self.tried_to >= to

    def logged(self, _after: int, _to: int) -> bool:
        return False

    def finish(self) -> None:
        self.wait_for(self._claimed_to)
        self._all_tried = True
        self._work.set()
        self._running.result()

    def _raise_failure(self) -> None:
        if self._running.done():
            self._running.result()

    def _run(self) -> None:
        try:
            while not (self._stopped or self._all_tried):
                self._step()
        finally:
            self._store_in_flight()
            self._progress.set()

    def _step(self) -> None:
        """Read pages ahead, send those that may be sent, wait for results, and store the outcomes."""
        has_room = self._read_to < self._claimed_to and len(self._waiting) < AHEAD_PAGES
        if has_room:
            self._read_pages()
        seconds = POLL_SECONDS  # until more may be sent
        busy_places: set[str] = set()
        unsent: list[Piece] = []
        while self._waiting and len(self._in_flight) < self._pool.threads and not self._stopped:
            rest, wait_seconds = self._send_parts(self._waiting.popleft(), busy_places)
            seconds = min(seconds, wait_seconds)
            if rest.page.keys and rest.page.vault not in self._faulty:
                unsent.append(rest)
        self._waiting.extendleft(reversed(unsent))
        if not has_room:
            self._work.wait(seconds)
        self._work.clear()
        self._take_results()

    def _read_pages(self) -> None:
        to = self._claimed_to
        pages = self._pool.stores.files.pages(self._token, self._read_to, to)
        claim = self._pool.stores.batches.last_claim(self._token)  # after the pages: not older than theirs
        self._read_to = max((page.seqs[-1] for page in pages), default=to)
        for page in pages:
            if page.vault in self._faulty:
                continue
            try:
                places = self._pool.pacer.places(self._token.instance, page.vault, page.keys)
            except UnknownVault as e:
                self._give_up(page.vault, Reason.UNKNOWN_VAULT, str(e))
            else:
                self._waiting.append(Piece(page, places, claim))

    def _send_parts(self, piece: Piece, busy_places: set[str]) -> tuple[Piece, float]:
        """Send a piece in parts, as far as pacer and threads allow; return the rest, and how long it has to wait."""
        pacer, seconds = self._pool.pacer, POLL_SECONDS
        while piece.page.keys and piece.page.vault not in self._faulty and len(self._in_flight) < self._pool.threads:
            if piece.places[0] in busy_places:  # checked first because it is cheap
                break
            keys = pacer.page_keys(piece.places[0])
            charge = Counter(piece.places[:keys])
            if not busy_places.isdisjoint(charge):
                break
            self._active_lease.renew_if_due()
            now = time.monotonic()
            if wait_seconds := pacer.reserve(charge, now):
                seconds = wait_seconds
                busy_places.update(charge)
                break
            part, piece = piece.cut(keys)
            future = self._pool.submit(self._token, self._active_lease, part)
            self._in_flight[future] = part, now
            future.add_done_callback(lambda _: self._work.set())
        return piece, seconds

    def _take_results(self) -> None:
        """Store the outcomes of pages that came back; throttled keys wait for another attempt."""
        self._active_lease.renew_if_due()
        for future in [f for f in self._in_flight if f.done()]:
            piece, sent_at = self._in_flight.pop(future)
            patience = self._patience.setdefault(piece.page.vault, Patience())
            try:
                results = future.result()
            except Throttled as busy:
                now = time.monotonic()
                whole = piece.refused(range(len(piece.page.keys)), now, telling=False)
                self._retry(whole, patience.refused(now), busy.detail)
            except PageFault as e:
                self._divide(piece, e.fault, patience)
            except (VaultFault, UnknownVault) as e:
                fault = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                fault = patience.lost(sent_at, time.monotonic()) if fault == UNREACHABLE else fault
                self._retry(piece, fault, str(getattr(e, "detail", e)))
            else:
                reached("files.deleted")
                self._store(piece, results, patience)
        in_flight = (piece.page.seqs[0] for piece, _ in self._in_flight.values())
        waiting = (piece.page.seqs[0] for piece in self._waiting if piece.page.vault not in self._faulty)
        self.tried_to = min([*in_flight, *waiting], default=self._read_to + 1) - 1
        self._progress.set()

    def _store(self, piece: Piece, results: Sequence[KeyResult], patience: Patience) -> None:
        """Store one page's outcomes, and try its throttled keys again."""
        vault = piece.page.vault
        self._pool.stores.outcomes.record(self._token, piece.page, results)
        now = time.monotonic()
        throttled = [n for n, result in enumerate(results) if result.outcome is KeyOutcome.THROTTLED]
        if len(throttled) < len(results):
            patience.taken()
            self._accepted_at[vault] = now
        if throttled:
            refusals = [results[n] for n in throttled]
            internal = all(result.reason.startswith(INTERNAL_ERROR) for result in refusals)
            # The store failed at these keys by themselves: it says so, or it accepted others before.
            alone = all(r.alone for r in refusals) or (internal and len(results) == 1 and vault in self._accepted_at)
            fault = patience.refused(now) if len(throttled) == len(results) and not alone else None
            telling = alone or self._accepted_at.get(vault, float("-inf")) > piece.refused_at
            refused = piece.refused(throttled, now, telling=telling)
            if internal and not alone and fault is None and 1 < len(refusals) == len(results):
                self._waiting.extendleft(reversed(refused.halves))  # one of the keys may be the reason
            else:
                self._retry(refused, fault, refusals[0].reason, refusals)

    def _divide(self, piece: Piece, fault: VaultFault, patience: Patience) -> None:
        """Try the halves of a page that failed as a whole, until the keys that are the reason fail alone."""
        refused = piece.refused(range(len(piece.page.keys)), time.monotonic(), telling=True)
        if patience.broken():
            self._give_up(piece.page.vault, fault.reason, fault.detail)
        elif len(piece.page.keys) > 1:
            self._waiting.extendleft(reversed(refused.halves))  # so that a key fails alone before the vault is given up
        elif refused.refusals < TRIES_ALONE:
            self._waiting.appendleft(refused)
        else:
            failed = KeyResult(piece.page.keys[0], KeyOutcome.FAILED, fault.detail)
            self._pool.stores.outcomes.record(self._token, piece.page, [failed])

    def _retry(self, piece: Piece, fault: str | None, detail: str, refusals: Sequence[KeyResult] = ()) -> None:
        """Put a piece back to be tried again, unless its vault is given up or its keys have failed.

        Keys that a store refuses again and again while it accepts others have failed: they count, and are shown.
        """
        if fault is not None:
            self._give_up(piece.page.vault, fault, detail)
        elif piece.hopeless and refusals:
            failed = [refusal._replace(outcome=KeyOutcome.FAILED) for refusal in refusals]
            self._pool.stores.outcomes.record(self._token, piece.page, failed)
        else:
            self._waiting.append(piece)

    def _give_up(self, vault: str, reason: str, detail: str) -> None:
        self._faulty.add(vault)
        self._active_lease.add_fault(vault, reason, detail)

    def _store_in_flight(self) -> None:
        """Store the outcomes of pages in flight after a stop: they cannot be called back.

        A file whose outcome cannot be stored is reported absent when it is tried again. Such an error must not hide the
        reason for which the deletion was stopped.
        """
        for future, (piece, _) in self._in_flight.items():
            if future.cancel():  # the pool never started it
                self._pool.pacer.report_result(piece.charge, None)
        while self._in_flight:
            future, (piece, _) = self._in_flight.popitem()
            if future.cancelled() or future.exception() is not None:
                continue
            try:
                self._pool.stores.outcomes.record(self._token, piece.page, future.result())
            except Exception:
                log.exception(
                    "outcomes of %d files of batch %d are not stored", len(piece.page.seqs), self._token.batch
                )
