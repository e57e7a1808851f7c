"""A lease in use by a range: when it was proved last, and which vaults the range leaves alone."""

import threading
import time
from collections.abc import Callable

from sexton.control.policy import vault_allowed
from sexton.control.port import Gate
from sexton.lease.model import Lease
from sexton.lease.port import Leases
from sexton.storage.port import NOT_LISTED, VaultFault

PROOF_SECONDS = 5.0
"""A lease is renewed at least this often, and no page begins on an older proof. A request takes at most 15 s (connect
and read timeouts) and a page is one request but for keys that XML cannot hold: it ends before a lease of 60 s does."""


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
        self._faults: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def faults(self) -> dict[str, str]:
        """Return the vaults that are left alone during this range, and why."""
        return self._faults.copy()

    def fault(self, vault: str, reason: str) -> None:
        """Leave a vault alone. May be called from any thread."""
        self._faults[vault] = reason

    def prove(self) -> None:
        """Renew when the last proof is too old; then say that we live, which raises when the work should stop.

        For the activity's own thread: others call ``prove_lease``.
        """
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
