"""A lease in use by a range: when it was proved last, and which vaults the range leaves alone."""

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from sexton.marks.lease import Lease
from sexton.marks.lease_port import Leases
from sexton.operators.controls.policy import vault_allowed
from sexton.operators.controls.port import Gate
from sexton.recycle.pacing.policy import Patience
from sexton.storage.port import NOT_LISTED, Throttled, VaultFault

T = TypeVar("T")
BUSY_SECONDS = 1.0
"""A store that asks for patience, and does not say how much, is asked again after this."""
LOOK_SECONDS = 0.5
"""While a store is waited for, a stop, a cancel or a lost lease is noticed after this."""
PROOF_SECONDS = 5.0
"""A lease is renewed at least this often, and no page begins on an older proof. A request takes at most 15 s (connect
and read timeouts) and a page is one request, or begins none after 20 s (conditional and purging vaults, keys that XML
cannot hold): it ends before a lease of 60 s does."""


class ActiveLease:
    """A lease in use: renewed as the work goes on, never older than ``PROOF_SECONDS`` when it counts.

    With it goes what an operator says about the instance and its vaults.
    """

    def __init__(
        self,
        leases: Leases,
        gate: Gate,
        lease: Lease,
        heartbeat: Callable[[], None],
        shut: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``shut``: vaults that the whole round leaves alone, and why."""
        self._leases = leases
        self._gate = gate
        self._lease = lease
        self._heartbeat = heartbeat
        self._shut = shut
        self._proved = float("-inf")
        self._vaults: frozenset[str] = frozenset()
        self._faults: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def faults(self) -> dict[str, str]:
        """Return the vaults that are left alone during this range, and why."""
        return self._faults.copy()

    @property
    def shut(self) -> dict[str, str]:
        """Return the vaults of which nothing may be claimed or deleted, and why."""
        return dict(self._shut)

    def fault(self, vault: str, reason: str) -> None:
        """Leave a vault alone. May be called from any thread."""
        self._faults[vault] = reason

    def leave(self, vault: str, reason: str) -> None:
        """Leave a vault alone, and claim nothing more of what is in it in this range. May be called from any thread."""
        self.fault(vault, reason)
        self._shut = {**self._shut, vault: reason}

    def prove(self) -> None:
        """Renew when the last proof is too old; then say that we live, which raises when the work should stop.

        For the activity's own thread: others call ``prove_lease``.
        """
        self.prove_lease()
        self._heartbeat()

    def prove_lease(self) -> None:
        """Renew when the last proof is too old. May be called from any thread; raises ``LeaseLost`` or ``Halted``."""
        with self._lock:
            before = time.monotonic()
            if before - self._proved >= PROOF_SECONDS:
                self._leases.renew(self._lease)
                self._vaults = self._gate.check(self._lease.instance)
                self._proved = before

    def prove_anew(self) -> None:
        """Renew now, whenever it was proved last: somebody else was refused."""
        with self._lock:
            self._proved = float("-inf")
        self.prove()

    def wait(self, seconds: float) -> None:
        """Let time pass, and go on proving; for the activity's own thread."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.prove()
            time.sleep(min(LOOK_SECONDS, left))

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask a store, and again while it asks for patience.

        Raises:
            VaultFault: it is at fault, or has taken nothing for long (THROTTLED).
        """
        patience = Patience()
        while True:
            try:
                return ask()
            except Throttled as busy:
                if why := self.bear(patience, busy):
                    raise VaultFault(busy.vault, why, busy.detail) from busy

    def bear(self, patience: Patience, busy: Throttled) -> str:
        """Wait as long as a busy store asks to; return why to give it up instead, empty to ask again."""
        if why := patience.refused(time.monotonic()):
            return why
        self.wait(busy.retry_after or BUSY_SECONDS)
        return ""

    def check_vault(self, vault: str) -> None:
        """Raise ``VaultFault`` where the round, or the vault whitelist (NOT_LISTED), leaves the vault alone."""
        if vault in self._shut:
            raise VaultFault(vault, self._shut[vault], "it cannot be used in this round, see the round's report")
        if not vault_allowed(self._vaults, self._lease.instance, vault):
            raise VaultFault(vault, NOT_LISTED, "other vaults are on the vault whitelist; see: sexton lists show")
