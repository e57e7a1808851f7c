"""Do a worker's part of rounds: announce them, run ranges, adopt the marks that earlier rounds left claimed."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial

from sexton.marks.model import Reason
from sexton.owners.port import OwnerSilent
from sexton.recycle.pipeline.active_lease import BUSY_SECONDS, RENEW_SECONDS
from sexton.recycle.pipeline.adopt import Adopter
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder, RangeReceipt
from sexton.recycle.pipeline.parts import Parts
from sexton.recycle.pipeline.ranges import RangeRunner
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.settle import Settler
from sexton.recycle.rounds.model import OpenedRound
from sexton.storage.port import Throttled, UnknownVault, VaultFault

log = logging.getLogger(__name__)
ANNOUNCE_SECONDS = 20.0
"""How long a marker is written again while a store throttles."""
ANNOUNCED_AT_ONCE = 16
"""Vaults whose markers are written at the same time."""


class Recycler:
    """Runs rounds' steps for one worker. Safe for several ranges at once."""

    def __init__(self, parts: Parts, group_files: int | None = None) -> None:
        """``group_files``: files claimed before their pages are settled together; None: ``ranges.GROUP_FILES``."""
        self._parts = parts
        resolver = Resolver(parts.stores, parts.vaults, parts.owner, parts.listings)
        settler = Settler(parts.stores, parts.owner, parts.log, parts.deleter)
        self._ranges = RangeRunner(parts, resolver, settler, group_files)
        self._adopter = Adopter(parts, resolver, settler)

    def announce(self, opened: OpenedRound, heartbeat: Callable[[], None]) -> OpenedRound:
        """Write the round into its vaults' markers, by which an older copy of the database is recognised.

        Markers are written in parallel while the lease is renewed: a few vaults that do not answer must not cost the
        others their round. Return the round with the vaults that it excludes, and why.
        """
        if not (opened.may_delete and opened.vaults):
            return opened
        over, faults = threading.Event(), dict[str, VaultFault | UnknownVault]()
        with ThreadPoolExecutor(ANNOUNCED_AT_ONCE, thread_name_prefix="announce") as pool:
            vault_of = {pool.submit(self._announce_to, opened, name, over): name for name in opened.vaults}
            try:
                waiting = set(vault_of)
                while waiting:
                    done, waiting = wait(waiting, timeout=RENEW_SECONDS, return_when=FIRST_COMPLETED)
                    faults |= {vault_of[future]: fault for future in done if (fault := future.result())}
                    heartbeat()
                    self._parts.leases.renew(opened.lease)
            finally:
                over.set()
        reasons = {vault: str(getattr(e, "reason", Reason.UNKNOWN_VAULT)) for vault, e in faults.items()}
        details = {vault: str(getattr(e, "detail", e)) for vault, e in faults.items()}
        return opened.model_copy(update={"excluded_vaults": reasons, "fault_details": details})

    def _announce_to(self, opened: OpenedRound, vault: str, over: threading.Event) -> VaultFault | UnknownVault | None:
        """Return why the marker was not written; None: it was. It is written again while a store throttles."""
        until = time.monotonic() + ANNOUNCE_SECONDS
        while True:
            try:
                self._parts.vaults.announce(opened.lease.instance, vault, opened.round)
            except Throttled as busy:
                if time.monotonic() > until or over.wait(busy.retry_after or BUSY_SECONDS):
                    return busy
            except (VaultFault, UnknownVault) as e:
                return e
            else:
                return None

    def mark_due(self, opened: OpenedRound, heartbeat: Callable[[], None]) -> None:
        """Let the owner mark new garbage, so that the plan of a round that only observes shows it."""
        instance, leases = opened.lease.instance, self._parts.leases

        def keep_alive() -> None:
            heartbeat()
            leases.renew(opened.lease)

        try:
            self._parts.owner.mark_due(instance, opened.cutoffs, keep_alive, partial(leases.verify, opened.lease))
        except OwnerSilent as e:
            log.warning("the plan of %s lacks what its owner would mark now: %s", instance, e)

    def recycle(self, order: RangeOrder, attempt: int, heartbeat: Callable[[], None]) -> RangeReceipt:
        """Claim, delete and settle one range of due marks; raises as ``RangeRunner.run`` does."""
        return self._ranges.run(order, attempt, heartbeat)

    def adopt(self, order: AdoptOrder, attempt: int, heartbeat: Callable[[], None]) -> RangeReceipt:
        """Finish the marks that earlier rounds claimed, then make the second passes that are due."""
        return self._adopter.adopt(order, attempt, heartbeat)

    def trim_log(self, instance: str, now: int, heartbeat: Callable[[], None]) -> None:
        """Delete expired parts of the log of deletions; parts that cannot be deleted now are retried another day."""
        self._parts.log.forget(instance, now, heartbeat)
