"""Delete the kinds of one wave in parallel: shards beside each other, each range by range."""

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from sexton.recycle.planning.model import KindPlan, Plan
    from sexton.recycle.rounds.ledger import Ledger
    from sexton.recycle.rounds.model import OpenedRound
    from workflows.attempt import AttemptResult, failed_attempt
    from workflows.details import error_message
    from workflows.ranges import recycle_range
    from workflows.signals import stop_if_cancelled


async def recycle_wave(
    opened: OpenedRound, plan: Plan, kinds: Sequence[KindPlan], ledger: Ledger, show: Callable[[], None]
) -> AttemptResult | None:
    """Delete several kinds in parallel; return a result only if an error stops every kind.

    ``show``: called after each range, to show the round's progress.
    """
    slots = asyncio.Semaphore(opened.ranges_at_once)
    deletions = []
    for kind in kinds:
        ledger.set_error(kind.kind, "")
        deletion = _KindDeletion(opened, plan, kind, ledger, slots, show)
        deletions += [(kind.kind, deletion.recycle_shard(shard)) for shard in ledger.unfinished_shards(kind.kind)]
    errors = await asyncio.gather(*(shard for _, shard in deletions), return_exceptions=True)
    stop_if_cancelled()
    failures: list[AttemptResult] = []
    for (name, _), error in zip(deletions, errors, strict=True):
        if isinstance(error, ActivityError) and not is_cancelled_exception(error):
            ledger.set_error(name, error_message(error))
            failures.append(failed_attempt(error))
        elif error is not None:
            raise error
    return next((f for f in failures if f.stops_every_kind), None)


@dataclass
class _KindDeletion:
    """The deletion of one kind, and since when at least one of its ranges runs."""

    opened: OpenedRound
    plan: Plan
    kind: KindPlan
    ledger: Ledger
    slots: asyncio.Semaphore
    show: Callable[[], None]
    running: int = 0
    counted_to: dt.datetime = dt.datetime.min

    async def recycle_shard(self, shard: int) -> None:
        """Delete one shard range by range, until it is finished or the history is full."""
        name, ledger = self.kind.kind, self.ledger
        while shard in ledger.unfinished_shards(name) and not workflow.info().is_continue_as_new_suggested():
            async with self.slots:
                order = ledger.next_range(self.opened, self.plan, self.kind, shard)
                self._count_time(begun=1)
                try:
                    receipt = await recycle_range(self.opened, self.kind, order, ledger)
                except (ActivityError, asyncio.CancelledError):  # not ``finally``: an evicted workflow has no time
                    self._count_time(begun=-1)
                    raise
                self._count_time(begun=-1)
            ledger.add_range(order, receipt)
            self.show()
            stop_if_cancelled()

    def _count_time(self, begun: int) -> None:
        """Count the time since the last call while ranges ran; ``begun``: ranges that begin now, -1: one has ended."""
        now = workflow.now()
        if self.running:
            self.ledger.add_elapsed(self.kind.kind, round((now - self.counted_to).total_seconds() * 1000))
        self.running, self.counted_to = self.running + begun, now
