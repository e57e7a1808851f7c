"""Write a round's number into the markers of its vaults, by which an older copy of the database is recognised."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from sexton.marks.lease_port import Leases
from sexton.marks.model import Reason
from sexton.recycle.pipeline.active_lease import BUSY_SECONDS, RENEW_SECONDS
from sexton.recycle.rounds.model import OpenedRound
from sexton.storage.port import Throttled, UnknownVault, VaultFault, Vaults

ANNOUNCE_SECONDS = 20.0
"""How long a marker is written again while a store throttles."""
ANNOUNCED_AT_ONCE = 16
"""Vaults whose markers are written at the same time."""


class Announcer:
    """Announces rounds for one worker."""

    def __init__(self, vaults: Vaults, leases: Leases) -> None:
        self._vaults = vaults
        self._leases = leases

    def announce(self, opened: OpenedRound, heartbeat: Callable[[], None]) -> dict[str, str]:
        """Write the round into its vaults' markers; return the vaults that the round excludes, and why.

        Markers are written in parallel while the lease is renewed: a few vaults that do not answer must not cost the
        others their round.
        """
        if not (opened.may_delete and opened.vaults):
            return {}
        over, excluded = threading.Event(), dict[str, str]()
        with ThreadPoolExecutor(ANNOUNCED_AT_ONCE, thread_name_prefix="announce") as pool:
            vault_of = {pool.submit(self._announce_to, opened, name, over): name for name in opened.vaults}
            try:
                waiting = set(vault_of)
                while waiting:
                    done, waiting = wait(waiting, timeout=RENEW_SECONDS, return_when=FIRST_COMPLETED)
                    excluded |= {vault_of[future]: fault for future in done if (fault := future.result())}
                    heartbeat()
                    self._leases.renew(opened.lease)
            finally:
                over.set()
        return excluded

    def _announce_to(self, opened: OpenedRound, vault: str, over: threading.Event) -> str:
        """Return why the marker was not written; empty if it was. It is written again while a store throttles."""
        until = time.monotonic() + ANNOUNCE_SECONDS
        while True:
            try:
                self._vaults.announce(opened.lease.instance, vault, opened.round)
            except Throttled as busy:
                if time.monotonic() > until or over.wait(busy.retry_after or BUSY_SECONDS):
                    return busy.reason
            except (VaultFault, UnknownVault) as e:
                return str(getattr(e, "reason", Reason.UNKNOWN_VAULT))
            else:
                return ""
