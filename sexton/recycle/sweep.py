"""Delete the stored files of a batch, page by page, several pages at once; prove lease and vault before each page."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from sexton.control.policy import vault_allowed
from sexton.control.port import Gate
from sexton.crashpoints import reached
from sexton.errors import BadInput
from sexton.lease.model import Lease
from sexton.lease.port import Leases
from sexton.marks.model import Hand, Page, Reason
from sexton.recycle.port import Marks
from sexton.storage.model import KeyResult, Outcome
from sexton.storage.port import NOT_LISTED, UNREACHABLE, UnknownVault, Vault, VaultFault, Vaults

PROOF_SECONDS = 5.0
"""A lease is renewed at least this often, and no page begins on an older proof. A request takes at most 15 s (connect
and read timeouts) and a page is one request but for keys that XML cannot hold: it ends before a lease of 60 s does."""
PATIENCE_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits before keys that the store throttled are tried again in the same round."""
UNREACHABLE_TRIES = 3
"""How often a vault that does not answer is tried in one sweep; each try may last as long as a time-out."""


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
    """Deletes with a pool of threads shared by all ranges of the process."""

    def __init__(self, marks: Marks, vaults: Vaults, threads: int) -> None:
        self._marks = marks
        self._vaults = vaults
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="delete")
        self.in_flight: Counter[tuple[str, str]] = Counter()
        """Pages being deleted now, by (instance, vault); for the metrics of this process."""
        self._lock = threading.Lock()

    def sweep(self, hand: Hand, holding: Holding) -> None:
        """Try every undone file of claimed marks of the batch; outcomes are stored per page.

        A vault that cannot be proved is left alone (its files stay undone, which is no failure); keys that the store
        throttles, and a vault that does not answer, are tried again with growing waits, and stay undone when it does
        not recover.
        """
        faulty: dict[str, str] = {}
        for n, patience in enumerate((*PATIENCE_SECONDS, None)):
            for name in [v for v, reason in faulty.items() if reason == UNREACHABLE and n < UNREACHABLE_TRIES]:
                del faulty[name]
            throttled = self._pass(hand, holding, faulty)
            again = throttled or (UNREACHABLE in faulty.values() and n + 1 < UNREACHABLE_TRIES)
            if not again or patience is None:
                break
            self._wait(patience, holding)
        holding.faults |= faulty

    def _pass(self, hand: Hand, holding: Holding, faulty: dict[str, str]) -> bool:
        """Go through the undone files once; return whether any key was throttled."""
        flying: dict[Future[Sequence[KeyResult]], Page] = {}
        throttled = False
        after = 0
        try:
            while pages := self._marks.pages(hand, after):
                after = max(page.seqs[-1] for page in pages)
                for page in pages:
                    while len(flying) >= self._threads:
                        throttled |= self._land(hand, flying, faulty, holding)
                    if page.vault in faulty:
                        continue
                    holding.prove()
                    flying[self._pool.submit(self._attempt, hand, holding, page)] = page
                while flying:
                    throttled |= self._land(hand, flying, faulty, holding)
        finally:
            # Stopped in the middle: pages under way cannot be called back, so their outcomes are still stored.
            for future, page in flying.items():
                if future.exception() is None:
                    self._marks.record(hand, page, future.result())
        return throttled

    def _attempt(self, hand: Hand, holding: Holding, page: Page) -> Sequence[KeyResult]:
        """Prove lease and vault, then delete one page. In the pool's thread: a page may have waited for its turn.

        Where something was absent the vault is proved once more: a disk unmounted meanwhile shows nothing at all.
        """
        holding.prove_lease()
        holding.check_vault(page.vault)
        vault = self._vaults.get(hand.instance, page.vault)
        self._fly(hand.instance, page.vault, 1)
        try:
            results = _delete(vault, page.keys)
        finally:
            self._fly(hand.instance, page.vault, -1)
        if any(r.outcome is Outcome.ABSENT for r in results):
            self._vaults.confirm(hand.instance, page.vault)
        return results

    def _fly(self, instance: str, vault: str, pages: int) -> None:
        with self._lock:
            self.in_flight[instance, vault] += pages

    def _land(
        self, hand: Hand, flying: dict[Future[Sequence[KeyResult]], Page], faulty: dict[str, str], holding: Holding
    ) -> bool:
        """Wait for pages and store their outcomes; return whether any key was throttled."""
        done, _ = wait(flying, timeout=PROOF_SECONDS, return_when=FIRST_COMPLETED)
        holding.prove()
        throttled = False
        for future in done:
            page = flying.pop(future)
            try:
                results = future.result()
            except (VaultFault, UnknownVault) as e:
                faulty[page.vault] = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                continue
            reached("files.deleted")
            self._marks.record(hand, page, results)
            throttled |= any(r.outcome is Outcome.THROTTLED for r in results)
        return throttled

    def _wait(self, seconds: float, holding: Holding) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            holding.prove()
            time.sleep(min(left, 0.5))


def _delete(vault: Vault, keys: Sequence[str]) -> Sequence[KeyResult]:
    """Delete one page. A key the vault refuses to send fails alone: one bad record never holds back its neighbours."""
    try:
        return vault.delete(keys)
    except BadInput as e:
        if len(keys) == 1:
            return [KeyResult(key=keys[0], outcome=Outcome.FAILED, reason=str(e))]
        middle = len(keys) // 2
        return [*_delete(vault, keys[:middle]), *_delete(vault, keys[middle:])]
