"""Do a worker's part of rounds: announce them, run ranges, adopt the marks that earlier rounds left claimed."""

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sexton.marks.lease_port import Leases
from sexton.operators.controls.port import Gate
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.audit.port import DeletionLog
from sexton.recycle.pipeline.adopt import Adopter
from sexton.recycle.pipeline.deleter import Deleter
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder, RangeProgress, RangeReceipt
from sexton.recycle.pipeline.port import Stores
from sexton.recycle.pipeline.ranges import ProgressReporter, RangeRunner
from sexton.recycle.pipeline.steps import steps
from sexton.recycle.rounds.announce import Announcer
from sexton.recycle.rounds.model import OpenedRound
from sexton.storage.port import Vaults

log = logging.getLogger(__name__)
LISTINGS_AT_ONCE = 8


class Parts(NamedTuple):
    """The ports of a recycler."""

    stores: Stores
    leases: Leases
    gate: Gate
    vaults: Vaults
    owner: Owner
    log: DeletionLog


class Recycler:
    """Runs rounds' steps for one worker. Safe for several ranges at once."""

    def __init__(
        self,
        parts: Parts,
        deleter: Deleter,
        listings: int = LISTINGS_AT_ONCE,
        *,
        group_files: int | None = None,
        range_objects: int | None = None,
    ) -> None:
        """Assemble the steps.

        Args:
            parts: the ports of the steps.
            deleter: where files are deleted: by threads of this process, or by executors.
            listings: prefixes listed at the same time (``recycle_pool_parallelism``).
            group_files: files claimed before their pages are settled together; None: ``ranges.GROUP_FILES``.
            range_objects: objects, or marks scanned, after which a range ends; None: ``ranges.RANGE_OBJECTS``.
        """
        stores, vaults, owner = parts.stores, parts.vaults, parts.owner
        self._parts = parts
        pipeline_steps = steps(stores, vaults, owner, parts.log, deleter, listings)
        self._ranges = RangeRunner(stores, pipeline_steps, group_files=group_files, range_objects=range_objects)
        self._adopter = Adopter(stores, vaults, owner, pipeline_steps, listings)
        self._announcer = Announcer(vaults, parts.leases)

    def announce(self, opened: OpenedRound, heartbeat: Callable[[], None]) -> dict[str, str]:
        """Write the round into its vaults' markers; return the vaults that the round excludes, and why."""
        return self._announcer.announce(opened, heartbeat)

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

    def recycle(
        self,
        order: RangeOrder,
        attempt: int,
        heartbeat: Callable[[], None],
        report: Callable[[RangeProgress], None] = lambda _: None,
    ) -> RangeReceipt:
        """Claim, delete and settle one range of due marks; ``report`` is called with its progress.

        Raises:
            LeaseLost: stop; a newer run continues.
            Halted: stop; an operator's stop, a list or a window halts the instance.
            NotEnabled: the instance is in observe mode.
        """
        reporter = ProgressReporter(report, heartbeat)
        return self._ranges.run(order, attempt, self._parts.leases, self._parts.gate, reporter)

    def adopt(self, order: AdoptOrder, attempt: int, heartbeat: Callable[[], None]) -> RangeReceipt:
        """Finish the marks that earlier rounds claimed, then make the second passes that are due."""
        return self._adopter.adopt(order, attempt, self._parts.leases, self._parts.gate, heartbeat)

    def trim_log(self, instance: str, now: int, heartbeat: Callable[[], None]) -> None:
        """Delete expired parts of the log of deletions; parts that cannot be deleted now are retried another day."""
        self._parts.log.forget(instance, now, heartbeat)
