"""Delete the stored files of a batch, page by page, several pages at once; prove lease and vault before each page."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from sexton.control.policy import vault_allowed
from sexton.control.port import Gate
from sexton.crashpoints import reached
from sexton.errors import BadInput
from sexton.lease.model import Lease
from sexton.lease.port import Leases
from sexton.marks.model import Hand, Reason
from sexton.pace.model import Answer, Piece
from sexton.pace.policy import THROTTLED, Patience
from sexton.pace.port import Pacer, Unpaced
from sexton.recycle.port import Marks
from sexton.storage.model import KeyResult, Outcome
from sexton.storage.port import NOT_LISTED, UNREACHABLE, Throttled, UnknownVault, Vault, VaultFault, Vaults

PROOF_SECONDS = 5.0
"""A lease is renewed at least this often, and no page begins on an older proof. A request takes at most 15 s (connect
and read timeouts) and a page is one request but for keys that XML cannot hold: it ends before a lease of 60 s does."""
LOOK_SECONDS = 0.5
"""While pages wait for their turn, a stop, a cancel or a lost lease is noticed after this."""
AHEAD_PAGES = 32
"""Pages read ahead, so that a place that waits does not hold up the others."""


class Holding:
    """A lease in use: renewed as the work goes on, never older than ``PROOF_SECONDS`` when it counts.

    With it goes what an operator says about the instance and its vaults.
    """

    def __init__(self, leases: Leases, gate: Gate, lease: Lease, pulse: Callable[[], None]) -> None:
        self._leases = leases
        self._gate = gate
        self._lease = lease
        self._pulse = pulse
        self._proved = float("-inf")
        self._vaults: frozenset[str] = frozenset()
        self.faults: dict[str, str] = {}
        """Vaults that were left alone during this range, and why."""
        self.left: set[tuple[int, int]] = set()
        """Files (batch, seq) that the store refuses while it takes others; left alone for the rest of this range."""
        self._lock = threading.Lock()

    def prove(self) -> None:
        """Renew when the last proof is too old; then say that we live, which raises when the work should stop."""
        self.prove_lease()
        self._pulse()

    def prove_lease(self) -> None:
        """Renew when the last proof is too old. May be called from any thread; raises ``LeaseLost`` or ``Halted``."""
        with self._lock:
            before = time.monotonic()
            if before - self._proved >= PROOF_SECONDS:
                self._leases.renew(self._lease)
                self._vaults = self._gate.check(self._lease.instance)
                self._proved = before

    def check_vault(self, vault: str) -> None:
        """Raise ``VaultFault`` NOT_LISTED where the vault whitelist leaves the vault out."""
        if not vault_allowed(self._vaults, self._lease.instance, vault):
            raise VaultFault(vault, NOT_LISTED, "other vaults are on the vault whitelist; see: sexton lists show")


class Sweeper:
    """Deletes with a pool of threads shared by all ranges of the process, at the pace the stores take."""

    def __init__(self, marks: Marks, vaults: Vaults, threads: int, pacer: Pacer | None = None) -> None:
        self._marks = marks
        self._vaults = vaults
        self._threads = threads
        self.pacer = pacer or Unpaced()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="delete")
        self.in_flight: Counter[tuple[str, str]] = Counter()
        """Pages being deleted now, by (instance, vault); for the metrics of this process."""
        self._lock = threading.Lock()

    def sweep(self, hand: Hand, holding: Holding) -> None:
        """Try every undone file of claimed marks of the batch; outcomes are stored per page.

        A vault that cannot be proved is left alone (its files stay undone, which is no failure). What the store
        throttles, or does not answer, is tried again after growing waits; a vault that takes nothing for long is left
        alone too.
        """
        _Sweep(self._marks, self, self._threads, hand, holding).run()

    def submit(self, hand: Hand, holding: Holding, piece: Piece) -> Future[Sequence[KeyResult]]:
        """Delete the piece in the pool; the pacer has said that it may be sent."""
        return self._pool.submit(self._attempt, hand, holding, piece)

    def _attempt(self, hand: Hand, holding: Holding, piece: Piece) -> Sequence[KeyResult]:
        """Prove lease and vault, then delete one page. In the pool's thread: a page may have waited for its turn.

        Where something was absent the vault is proved once more: a disk unmounted meanwhile shows nothing at all.
        """
        page, answer, began = piece.page, None, time.monotonic()
        try:
            holding.prove_lease()
            holding.check_vault(page.vault)
            vault = self._vaults.get(hand.instance, page.vault)
            self._fly(hand.instance, page.vault, 1)
            began = time.monotonic()
            try:
                results = _delete(vault, page.keys, page.etags)
            finally:
                self._fly(hand.instance, page.vault, -1)
            refused = [n for n, r in enumerate(results) if r.outcome is Outcome.THROTTLED]
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
            self.pacer.told(piece.charge, answer)
        if any(r.outcome is Outcome.ABSENT for r in results):
            self._vaults.confirm(hand.instance, page.vault)
        return results

    def _fly(self, instance: str, vault: str, pages: int) -> None:
        with self._lock:
            self.in_flight[instance, vault] += pages


class _Sweep:
    """One go through the undone files of a batch: what waits for its turn, what is under way, what is given up."""

    def __init__(self, marks: Marks, sweeper: Sweeper, threads: int, hand: Hand, holding: Holding) -> None:
        self._marks, self._sweeper, self._threads = marks, sweeper, threads
        self._hand, self._holding = hand, holding
        self._waiting: deque[Piece] = deque()
        self._flying: dict[Future[Sequence[KeyResult]], tuple[Piece, float]] = {}
        self._patience: dict[str, Patience] = {}
        self._faulty = {name: reason for name, reason in holding.faults.items() if reason == THROTTLED}
        self._after, self._more = 0, True

    def run(self) -> None:
        try:
            while self._more or self._waiting or self._flying:
                room = self._more and len(self._waiting) < AHEAD_PAGES
                if room:
                    self._read()
                self._land(0.0 if room else self._start())
        finally:
            # Stopped in the middle: pages under way cannot be called back, so their outcomes are still stored.
            for future, (piece, _) in self._flying.items():
                if future.exception() is None:
                    self._marks.record(self._hand, piece.page, future.result())
            self._holding.faults |= self._faulty

    def _read(self) -> None:
        pages = self._marks.pages(self._hand, self._after)
        self._more = bool(pages)
        for page in pages:
            self._after = max(self._after, page.seqs[-1])
            kept = [n for n, seq in enumerate(page.seqs) if (self._hand.batch, seq) not in self._holding.left]
            if not kept or page.vault in self._faulty:
                continue
            try:
                places = self._sweeper.pacer.places(self._hand.instance, page.vault, page.keys)
            except UnknownVault:
                self._faulty[page.vault] = Reason.UNKNOWN_VAULT
            else:
                whole = Piece(page, places)
                self._waiting.append(whole if len(kept) == len(places) else whole.part(kept))
        self._start()

    def _start(self) -> float:
        """Send what may be sent now; return the seconds after which to look again."""
        pacer, soon = self._sweeper.pacer, LOOK_SECONDS
        busy: set[str] = set()
        kept: list[Piece] = []
        while self._waiting and len(self._flying) < self._threads:
            piece = self._waiting.popleft()
            vault = piece.page.vault
            while piece.page.keys and vault not in self._faulty and len(self._flying) < self._threads:
                if piece.places[0] in busy:  # looked at first, as it costs next to nothing
                    break
                keys = pacer.page_keys(piece.places[0])
                charge = Counter(piece.places[:keys])
                if not busy.isdisjoint(charge):
                    break
                self._holding.prove()
                now = time.monotonic()
                if wait_ := pacer.ask(charge, now):
                    soon = min(soon, wait_)
                    busy.update(charge)
                    break
                next_, piece = piece.cut(keys)
                self._flying[self._sweeper.submit(self._hand, self._holding, next_)] = next_, now
            if piece.page.keys and vault not in self._faulty:
                kept.append(piece)
        self._waiting.extendleft(reversed(kept))
        return soon

    def _land(self, seconds: float) -> None:
        """Wait for pages and store their outcomes; what was refused waits for another turn."""
        done, _ = wait(self._flying, timeout=seconds, return_when=FIRST_COMPLETED)
        if not self._flying and self._waiting:
            time.sleep(seconds)
        self._holding.prove()
        for future in done:
            piece, sent = self._flying.pop(future)
            vault = piece.page.vault
            patience = self._patience.setdefault(vault, Patience())
            try:
                results = future.result()
            except Throttled:
                self._again(piece.refused(range(len(piece.page.keys))), patience.refused(time.monotonic()))
                continue
            except (VaultFault, UnknownVault) as e:
                reason = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                self._again(piece, patience.lost(sent, time.monotonic()) if reason == UNREACHABLE else reason)
                continue
            reached("files.deleted")
            self._marks.record(self._hand, piece.page, results)
            refused = [n for n, r in enumerate(results) if r.outcome is Outcome.THROTTLED]
            if len(refused) < len(results):
                patience.taken()
            if refused:
                fault = patience.refused(time.monotonic()) if len(refused) == len(results) else None
                self._again(piece.refused(refused), fault)

    def _again(self, piece: Piece, fault: str | None) -> None:
        """Put a piece back to be tried again, unless its vault, or it, is given up."""
        if fault is not None:
            self._faulty[piece.page.vault] = fault
        elif piece.hopeless:
            self._holding.left.update((self._hand.batch, seq) for seq in piece.page.seqs)
        else:
            self._waiting.append(piece)


def _delete(vault: Vault, keys: Sequence[str], etags: Sequence[str]) -> Sequence[KeyResult]:
    """Delete one page. A key the vault refuses to send fails alone: one bad record never holds back its neighbours."""
    try:
        return vault.delete(keys, etags)
    except BadInput as e:
        if len(keys) == 1:
            return [KeyResult(key=keys[0], outcome=Outcome.FAILED, reason=str(e))]
        middle = len(keys) // 2
        return [
            *_delete(vault, keys[:middle], etags[:middle]),
            *_delete(vault, keys[middle:], etags[middle:]),
        ]
