"""Schedule the pages of one batch: several in parallel, at the pacer's rate, retried while a store throttles.

The scheduler runs beside the thread that claims and settles, so that the store is busy while rows are written.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Protocol, Self

from sexton.kernel.crash_points import reached
from sexton.marks.model import Reason, WriteToken
from sexton.recycle.pacing.model import Piece
from sexton.recycle.pacing.policy import THROTTLED, Patience
from sexton.recycle.pacing.port import Pacer
from sexton.recycle.pipeline.active_lease import POLL_SECONDS, ActiveLease
from sexton.recycle.pipeline.port import Stores
from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import UNREACHABLE, Throttled, UnknownVault, VaultFault

log = logging.getLogger(__name__)
AHEAD_PAGES = 32
"""Pages read ahead, so that a throttled place does not delay the others."""


class PagePool(Protocol):
    """Deletes single pages in threads, within the limits of the process."""

    stores: Stores
    pacer: Pacer
    threads: int
    beside: bool
    most_keys: int

    def submit(self, token: WriteToken, active_lease: ActiveLease, piece: Piece) -> Future[Sequence[KeyResult]]:
        """Delete a piece in the pool; the pacer has allowed it."""
        ...


class ThreadDeletion:
    """One deletion of a batch's undone files, while more of them are claimed. Implements ``deleter.Deletion``.

    Outcomes are stored page by page. A vault that cannot be verified is skipped: its files stay undone, which is no
    failure. Requests that a store throttles or does not answer are retried with growing waits; a vault that accepts
    nothing for long is skipped too.
    """

    def __init__(self, pool: PagePool, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> None:
        self._pool, self._token, self._active_lease = pool, token, active_lease
        self._waiting: deque[Piece] = deque()
        self._in_flight: dict[Future[Sequence[KeyResult]], tuple[Piece, float]] = {}
        self._patience: dict[str, Patience] = {}
        self._accepted_at: dict[str, float] = {}
        self._faulty = {vault for vault, reason in active_lease.faults.items() if reason == THROTTLED}
        self._read_to = self._claimed_to = self._tried_to = after
        self._all_tried, self._stopped = False, False
        self._work, self._progress = threading.Event(), threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="deletion")
        self._running: Future[None] = Future()

    def __enter__(self) -> Self:
        if self._pool.beside:
            self._running = self._thread.submit(copy_context().run, self._run)  # for the context of its log records
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Stop, unless it has ended: pages in flight cannot be called back, so their outcomes are still stored."""
        self._stopped = True
        self._work.set()
        self._thread.shutdown()
        self._store_in_flight()

    def release_up_to(self, to: int) -> None:
        self._raise_failure()
        self._claimed_to = to
        self._work.set()

    def wait_for(self, to: int) -> None:
        while not self.has_tried(to) or (self._in_flight and not self._pool.beside):
            if self._pool.beside:
                self._progress.wait(POLL_SECONDS)
                self._progress.clear()
            else:
                self._step()
            self._active_lease.keep_alive()

    def has_tried(self, to: int) -> bool:
        self._raise_failure()
        return self._tried_to >= to

    @property
    def tried_to(self) -> int:
        return self._tried_to

    def logged(self, _after: int, _to: int) -> bool:
        return False

    def finish(self) -> None:
        self.wait_for(self._claimed_to)
        self._all_tried = True
        self._work.set()
        if self._pool.beside:
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
        """Send the pages that may be sent, wait for results, and store the outcomes."""
        has_room = self._read_to < self._claimed_to and len(self._waiting) < AHEAD_PAGES
        if has_room:
            self._read_pages()
        seconds = self._send()
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
            except UnknownVault:
                self._give_up(page.vault, Reason.UNKNOWN_VAULT)
            else:
                self._waiting.append(Piece(page, places, claim))

    def _send(self) -> float:
        """Send the pages that may be sent now; return the seconds after which more may be sent."""
        seconds = POLL_SECONDS
        busy_places: set[str] = set()
        unsent: list[Piece] = []
        while self._waiting and len(self._in_flight) < self._pool.threads and not self._stopped:
            rest, wait_seconds = self._send_parts(self._waiting.popleft(), busy_places)
            seconds = min(seconds, wait_seconds)
            if rest.page.keys and rest.page.vault not in self._faulty:
                unsent.append(rest)
        self._waiting.extendleft(reversed(unsent))
        return seconds

    def _send_parts(self, piece: Piece, busy_places: set[str]) -> tuple[Piece, float]:
        """Send a piece in parts, as far as pacer and threads allow; return the rest, and how long it has to wait."""
        pacer, seconds = self._pool.pacer, POLL_SECONDS
        while piece.page.keys and piece.page.vault not in self._faulty and len(self._in_flight) < self._pool.threads:
            if piece.places[0] in busy_places:  # checked first because it is cheap
                break
            keys = min(pacer.page_keys(piece.places[0]), self._pool.most_keys)
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
            except Throttled:
                now = time.monotonic()
                whole = piece.refused(range(len(piece.page.keys)), now, telling=False)
                self._retry(whole, patience.refused(now))
            except (VaultFault, UnknownVault) as e:
                fault = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                self._retry(piece, patience.lost(sent_at, time.monotonic()) if fault == UNREACHABLE else fault)
            else:
                reached("files.deleted")
                self._store(piece, results, patience)
        in_flight = (piece.page.seqs[0] for piece, _ in self._in_flight.values())
        waiting = (piece.page.seqs[0] for piece in self._waiting if piece.page.vault not in self._faulty)
        self._tried_to = tried_up_to([*in_flight, *waiting], self._read_to)
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
            alone = all(result.alone for result in refusals)
            fault = patience.refused(now) if len(throttled) == len(results) and not alone else None
            telling = alone or self._accepted_at.get(vault, float("-inf")) > piece.refused_at
            self._retry(piece.refused(throttled, now, telling=telling), fault, refusals)

    def _retry(self, piece: Piece, fault: str | None, refusals: Sequence[KeyResult] = ()) -> None:
        """Put a piece back to be tried again, unless its vault is given up or its keys have failed.

        Keys that a store refuses again and again while it accepts others have failed: they count, and are shown.
        """
        if fault is not None:
            self._give_up(piece.page.vault, fault)
        elif piece.hopeless and refusals:
            failed = [refusal._replace(outcome=KeyOutcome.FAILED) for refusal in refusals]
            self._pool.stores.outcomes.record(self._token, piece.page, failed)
        else:
            self._waiting.append(piece)

    def _give_up(self, vault: str, reason: str) -> None:
        self._faulty.add(vault)
        self._active_lease.add_fault(vault, reason)

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


def tried_up_to(untried_files: Iterable[int], read_to: int) -> int:
    """Return the number of the last file up to which all were tried. Pure.

    Args:
        untried_files: the first file of each page that is in flight or waits.
        read_to: the last file that was read.
    """
    return min(untried_files, default=read_to + 1) - 1
