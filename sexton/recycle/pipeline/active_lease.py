"""Keep a lease in use: renew it while the work continues, and track the vaults that the range excludes."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from sexton.marks.model import Lease, WriteToken
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.policy import vault_allowed
from sexton.operators.controls.store import ControlStore
from sexton.recycle.pacing.policy import Patience
from sexton.storage.port import NOT_LISTED, Throttled, VaultFault

T = TypeVar("T")
log = logging.getLogger(__name__)
BUSY_SECONDS = 1.0
"""The wait before a request to a throttling store is repeated, if the store does not state a time."""
POLL_SECONDS = 0.5
"""How soon a stop, a cancel or a lost lease is noticed while the work waits for a store."""
RENEW_SECONDS = 3.0
"""A lease is renewed, and stops are read, at least this often, and no page begins on an older renewal. The page begins
at most 2 s after that was verified: a stop is respected within 5 s. A request takes at most 15 s (connect and read
timeouts) and a page is one request, or begins none after 20 s (conditional and purging vaults, keys that XML cannot
hold): it ends before a lease of 60 s does."""


class ActiveLease:
    """A lease in use: renewed while the work continues, and never older than ``RENEW_SECONDS`` when a page begins.

    It also checks the operators' controls of the instance, and tracks the vaults that the range excludes.
    """

    def __init__(
        self,
        leases: LeaseStore,
        gate: ControlStore,
        lease: Lease,
        heartbeat: Callable[[], None],
        excluded_vaults: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``excluded_vaults``: vaults that the whole round excludes, and why."""
        self._leases = leases
        self._gate = gate
        self._lease = lease
        self._heartbeat = heartbeat
        self._excluded_vaults = excluded_vaults
        self._renewed_at = float("-inf")
        self._whitelist: frozenset[str] = frozenset()
        self._faults: dict[str, str] = {}
        self.fault_details: dict[str, str] = {}
        """By vault that this range skips: what it met there first."""
        self.unanswered: Counter[str] = Counter()
        """By vault: prefixes that could not be listed in this range."""
        self._lock = threading.Lock()

    @property
    def faults(self) -> dict[str, str]:
        """Return the vaults that this range skips, and why."""
        return self._faults.copy()

    @property
    def excluded_vaults(self) -> dict[str, str]:
        """Return the vaults in which nothing may be claimed or deleted, and why."""
        return dict(self._excluded_vaults)

    def add_fault(self, vault: str, reason: str, detail: str) -> None:
        """Skip a vault in this range, and log what it answered. May be called from any thread."""
        if self._faults.get(vault) != reason:
            log.warning("vault %s of %s: %s: %s", vault, self._lease.instance, reason, detail)
            self.fault_details[vault] = detail
        self._faults[vault] = reason

    def exclude_vault(self, vault: str, reason: str, detail: str) -> None:
        """Skip a vault, and claim no more marks in it during this range. May be called from any thread."""
        self.add_fault(vault, reason, detail)
        self._excluded_vaults = {**self._excluded_vaults, vault: reason}

    def keep_alive(self) -> None:
        """Renew the lease if that is due, then send a heartbeat, which raises when the work should stop.

        For the activity's own thread: other threads call ``renew_if_due``.
        """
        self.renew_if_due()
        self._heartbeat()

    def renew_if_due(self) -> None:
        """Renew if the last renewal is too old. May be called from any thread; raises ``LeaseLost`` or ``Halted``."""
        with self._lock:
            now = time.monotonic()
            if now - self._renewed_at >= RENEW_SECONDS:
                self._leases.renew(self._lease)
                self._whitelist = self._gate.check(self._lease.instance)
                self._renewed_at = now

    def renew_now(self) -> None:
        """Renew even if the last renewal is recent: another process was refused."""
        with self._lock:
            self._renewed_at = float("-inf")
        self.keep_alive()

    def wait(self, seconds: float) -> None:
        """Wait while the lease is kept alive; for the activity's own thread."""
        until = time.monotonic() + seconds
        while (remaining := until - time.monotonic()) > 0:
            self.keep_alive()
            time.sleep(min(POLL_SECONDS, remaining))

    def retry_throttled(self, request: Callable[[], T]) -> T:
        """Send a request to a store; repeat it while the store throttles it.

        Raises:
            VaultFault: the vault has a fault, or the store has accepted nothing for long (THROTTLED).
        """
        patience = Patience()
        while True:
            try:
                return request()
            except Throttled as busy:
                if reason := self.wait_for_store(patience, busy):
                    raise VaultFault(busy.vault, reason, busy.detail) from busy

    def wait_for_store(self, patience: Patience, busy: Throttled) -> str:
        """Wait as long as a throttling store demands; return why to give up instead, empty: try again."""
        if reason := patience.refused(time.monotonic()):
            return reason
        self.wait(busy.retry_after or BUSY_SECONDS)
        return ""

    def refuse_excluded(self, vault: str) -> None:
        """Raise ``VaultFault`` if the round, or the vault whitelist (NOT_LISTED), excludes the vault."""
        if vault in self._excluded_vaults:
            raise VaultFault(vault, self._excluded_vaults[vault], "this round excludes it, see the round's report")
        if not vault_allowed(self._whitelist, self._lease.instance, vault):
            raise VaultFault(vault, NOT_LISTED, "other vaults are on the vault whitelist; see: sexton lists show")


class BatchWork(NamedTuple):
    """One attempt's work on a batch: the token of its writes, and the lease that it keeps alive."""

    token: WriteToken
    active_lease: ActiveLease

    @property
    def instance(self) -> str:
        """Return the instance of the batch."""
        return self.token.instance
