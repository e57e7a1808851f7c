"""Delete the stored files of a batch, page by page, several pages at once; prove lease and vault before each page.

It runs beside the thread that claims and settles, so that the store is busy while records are written.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from types import TracebackType
from typing import Self

from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.marks.model import Reason, WriteToken
from sexton.recycle.pacing.model import Answer, Piece
from sexton.recycle.pacing.policy import THROTTLED, Patience
from sexton.recycle.pacing.port import Pacer, Unpaced
from sexton.recycle.pipeline.active_lease import LOOK_SECONDS, ActiveLease
from sexton.recycle.pipeline.port import Marks
from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult
from sexton.storage.port import UNREACHABLE, Throttled, UnknownVault, Vault, VaultFault, Vaults

log = logging.getLogger(__name__)
AHEAD_PAGES = 32
"""Pages read ahead, so that a place that waits does not hold up the others."""


class ThreadDeleter:
    """Deletes with a pool of threads shared by all ranges of the process, at the pace the stores take."""

    def __init__(
        self,
        marks: Marks,
        vaults: Vaults,
        threads: int,
        pacer: Pacer | None = None,
        *,
        beside: bool = True,
        most_keys: int = PAGE_KEYS,
    ) -> None:
        """Nothing runs yet.

        Args:
            marks: where files and outcomes are.
            vaults: where they are deleted.
            threads: requests at once.
            pacer: says when a request may be sent; by default only what a store refuses waits.
            beside: sweeps have threads of their own; else ``wait_for`` runs them.
            most_keys: in one request, whatever the pacer allows.
        """
        self.marks = marks
        self.beside = beside
        self.threads = threads
        self.pacer = pacer or Unpaced()
        self.most_keys = most_keys
        self._vaults = vaults
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="delete")
        self.in_flight: Counter[tuple[str, str]] = Counter()
        """Pages being deleted now, by (instance, vault); for the metrics of this process."""
        self._lock = threading.Lock()

    def begin(self, token: WriteToken, holding: ActiveLease, after: int = 0) -> "ThreadDeletion":
        """Return a sweep through the batch, to be used as a context: it runs beside it until it is told all.

        ``after``: the number of a file; only those beyond it are tried.
        """
        return ThreadDeletion(self, token, holding, after)

    def submit(self, token: WriteToken, holding: ActiveLease, piece: Piece) -> Future[Sequence[KeyResult]]:
        """Delete the piece in the pool; the pacer has said that it may be sent."""
        return self._pool.submit(self._attempt, token, holding, piece)

    def _attempt(self, token: WriteToken, holding: ActiveLease, piece: Piece) -> Sequence[KeyResult]:
        """Prove lease and vault, then delete one page. In the pool's thread: a page may have waited for its turn.

        Where something was absent the vault is proved once more: a disk unmounted meanwhile shows nothing at all.
        """
        page, answer, began = piece.page, None, time.monotonic()
        try:
            holding.prove_lease()
            holding.check_vault(page.vault)
            vault = self._vaults.get(token.instance, page.vault)
            self._fly(token.instance, page.vault, 1)
            began = time.monotonic()
            try:
                results = _delete(vault, page.keys, page.etags)
            finally:
                self._fly(token.instance, page.vault, -1)
            refused = [n for n, r in enumerate(results) if r.outcome is KeyOutcome.THROTTLED]
            waits = [results[n].retry_after or 0.0 for n in refused]
            where = Counter(piece.places[n] for n in refused)
            answer = Answer(began, time.monotonic() - began, where, retry_after=max(waits, default=None))
        except VaultFault as e:
            if isinstance(e, Throttled):
                answer = Answer(began, time.monotonic() - began, piece.charge, retry_after=e.retry_after)
            elif e.reason == UNREACHABLE:
                answer = Answer(began, time.monotonic() - began, lost=True)
            raise
        finally:
            self.pacer.report_result(piece.charge, answer)
        if any(r.outcome is KeyOutcome.ABSENT for r in results):
            self._vaults.confirm(token.instance, page.vault)
        return results

    def _fly(self, instance: str, vault: str, pages: int) -> None:
        with self._lock:
            self.in_flight[instance, vault] += pages


class ThreadDeletion:
    """One go through the undone files of a batch, while more of them are claimed. Implements ``recycle.sweeps.Sweep``.

    Outcomes are stored per page. A vault that cannot be proved is left alone (its files stay undone, which is no
    failure). What the store throttles, or does not answer, is tried again after growing waits; a vault that takes
    nothing for long is left alone too.
    """

    def __init__(self, sweeper: ThreadDeleter, token: WriteToken, holding: ActiveLease, after: int = 0) -> None:
        self._sweeper, self._token, self._holding = sweeper, token, holding
        self._waiting: deque[Piece] = deque()
        self._flying: dict[Future[Sequence[KeyResult]], tuple[Piece, float]] = {}
        self._patience: dict[str, Patience] = {}
        self._took_at: dict[str, float] = {}
        self._faulty = {vault for vault, reason in holding.faults.items() if reason == THROTTLED}
        self._read_to = self._claimed_to = self._tried_to = after
        self._all, self._stop = False, False
        self._work, self._news = threading.Event(), threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sweep")
        self._running: Future[None] = Future()

    def __enter__(self) -> Self:
        if self._sweeper.beside:
            self._running = self._thread.submit(self._run)
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Stop, unless it has ended: pages under way cannot be called back, so their outcomes are still stored."""
        self._stop = True
        self._work.set()
        self._thread.shutdown()
        self._end()

    def claimed(self, to: int) -> None:
        self._check()
        self._claimed_to = to
        self._work.set()

    def wait_for(self, to: int) -> None:
        while not self.tried(to) or (self._flying and not self._sweeper.beside):
            if self._sweeper.beside:
                self._news.wait(LOOK_SECONDS)
                self._news.clear()
            else:
                self._turn()
            self._holding.prove()

    def tried(self, to: int) -> bool:
        self._check()
        return self._tried_to >= to

    @property
    def tried_to(self) -> int:
        return self._tried_to

    def audited(self, _after: int, _to: int) -> bool:
        return False

    def finish(self) -> None:
        self.wait_for(self._claimed_to)
        self._all = True
        self._work.set()
        if self._sweeper.beside:
            self._running.result()

    def _check(self) -> None:
        if self._running.done():
            self._running.result()

    def _run(self) -> None:
        try:
            while not (self._stop or self._all):
                self._turn()
        finally:
            self._end()
            self._news.set()

    def _turn(self) -> None:
        """Send what may be sent, wait until something happens, and store what came back."""
        room = self._read_to < self._claimed_to and len(self._waiting) < AHEAD_PAGES
        if room:
            self._read()
        soon = self._start()
        if not room:
            self._work.wait(soon)
        self._work.clear()
        self._land()

    def _end(self) -> None:
        """Stopped in the middle: pages under way cannot be called back, so their outcomes are still stored.

        What cannot be stored is absent when it is tried again; that must not hide why the sweep was stopped.
        """
        for future in self._flying:
            if future.cancel():  # nobody has sent it
                self._sweeper.pacer.report_result(self._flying[future][0].charge, None)
        while self._flying:
            future, (piece, _) = self._flying.popitem()
            if not future.cancelled() and future.exception() is None:
                try:
                    self._sweeper.marks.record(self._token, piece.page, future.result())
                except Exception:
                    log.exception(
                        "outcomes of %d files of batch %d are not stored", len(piece.page.seqs), self._token.batch
                    )

    def _read(self) -> None:
        to = self._claimed_to
        pages = self._sweeper.marks.pages(self._token, self._read_to, to)
        self._read_to = max((page.seqs[-1] for page in pages), default=to)
        for page in pages:
            if page.vault in self._faulty:
                continue
            try:
                places = self._sweeper.pacer.places(self._token.instance, page.vault, page.keys)
            except UnknownVault:
                self._give_up(page.vault, Reason.UNKNOWN_VAULT)
            else:
                self._waiting.append(Piece(page, places))

    def _start(self) -> float:
        """Send what may be sent now; return the seconds after which to look again."""
        pacer, soon, threads = self._sweeper.pacer, LOOK_SECONDS, self._sweeper.threads
        busy: set[str] = set()
        kept: list[Piece] = []
        while self._waiting and len(self._flying) < threads and not self._stop:
            piece = self._waiting.popleft()
            vault = piece.page.vault
            while piece.page.keys and vault not in self._faulty and len(self._flying) < threads:
                if piece.places[0] in busy:  # looked at first, as it costs next to nothing
                    break
                keys = min(pacer.page_keys(piece.places[0]), self._sweeper.most_keys)
                charge = Counter(piece.places[:keys])
                if not busy.isdisjoint(charge):
                    break
                self._holding.prove_lease()
                now = time.monotonic()
                if wait_ := pacer.ask(charge, now):
                    soon = min(soon, wait_)
                    busy.update(charge)
                    break
                next_, piece = piece.cut(keys)
                future = self._sweeper.submit(self._token, self._holding, next_)
                self._flying[future] = next_, now
                future.add_done_callback(lambda _: self._work.set())
            if piece.page.keys and vault not in self._faulty:
                kept.append(piece)
        self._waiting.extendleft(reversed(kept))
        return soon

    def _land(self) -> None:
        """Store the outcomes of pages that came back; what was refused waits for another turn."""
        self._holding.prove_lease()
        for future in [f for f in self._flying if f.done()]:
            piece, sent = self._flying.pop(future)
            vault = piece.page.vault
            patience = self._patience.setdefault(vault, Patience())
            try:
                results = future.result()
            except Throttled:
                now = time.monotonic()
                self._again(piece.refused(range(len(piece.page.keys)), now, telling=False), patience.refused(now))
                continue
            except (VaultFault, UnknownVault) as e:
                reason = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                self._again(piece, patience.lost(sent, time.monotonic()) if reason == UNREACHABLE else reason)
                continue
            reached("files.deleted")
            self._sweeper.marks.record(self._token, piece.page, results)
            now = time.monotonic()
            refused = [n for n, r in enumerate(results) if r.outcome is KeyOutcome.THROTTLED]
            if len(refused) < len(results):
                patience.taken()
                self._took_at[vault] = now
            if refused:
                said = [results[n] for n in refused]
                alone = all(r.alone for r in said)
                fault = patience.refused(now) if len(refused) == len(results) and not alone else None
                telling = alone or self._took_at.get(vault, float("-inf")) > piece.refused_at
                self._again(piece.refused(refused, now, telling=telling), fault, said)
        flying = (piece.page.seqs[0] for piece, _ in self._flying.values())
        waiting = (piece.page.seqs[0] for piece in self._waiting if piece.page.vault not in self._faulty)
        self._tried_to = min(chain(flying, waiting), default=self._read_to + 1) - 1
        self._news.set()

    def _again(self, piece: Piece, fault: str | None, said: Sequence[KeyResult] = ()) -> None:
        """Put a piece back to be tried again, unless its vault is given up, or it has failed.

        What a store refuses again and again while it takes others has failed: it counts, and is looked at.
        """
        if fault is not None:
            self._give_up(piece.page.vault, fault)
        elif piece.hopeless and said:
            failed = [r._replace(outcome=KeyOutcome.FAILED) for r in said]
            self._sweeper.marks.record(self._token, piece.page, failed)
        else:
            self._waiting.append(piece)

    def _give_up(self, vault: str, reason: str) -> None:
        self._faulty.add(vault)
        self._holding.fault(vault, reason)


def _delete(vault: Vault, keys: Sequence[str], etags: Sequence[str]) -> Sequence[KeyResult]:
    """Delete one page. A key the vault refuses to send fails alone: one bad record never holds back its neighbours."""
    try:
        return vault.delete(keys, etags)
    except BadInput as e:
        if len(keys) == 1:
            return [KeyResult(key=keys[0], outcome=KeyOutcome.FAILED, reason=str(e))]
        middle = len(keys) // 2
        return [
            *_delete(vault, keys[:middle], etags[:middle]),
            *_delete(vault, keys[middle:], etags[middle:]),
        ]
