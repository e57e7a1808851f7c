"""Delete the kinds of one wave in parallel, each range by range."""

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from sexton.recycle.planning.model import KindPlan, Plan
    from sexton.recycle.rounds.ledger import Ledger
    from sexton.recycle.rounds.model import OpenedRound
    from workflows.attempt import AttemptResult, failed_attempt
    from workflows.errors import error_message
    from workflows.options import RANGES_AT_ONCE
    from workflows.ranges import recycle_range
    from workflows.signals import stop_if_cancelled


async def recycle_wave(
    opened: OpenedRound, plan: Plan, kinds: Sequence[KindPlan], ledger: Ledger, show: Callable[[], None]
) -> AttemptResult | None:
    """Delete several kinds in parallel; return a result only if an error stops every kind.

    ``show``: called after each range, to show the round's progress.
    """
    slots = asyncio.Semaphore(RANGES_AT_ONCE)
    deletions = (_recycle_kind(opened, plan, kind, ledger, slots, show) for kind in kinds)
    errors = await asyncio.gather(*deletions, return_exceptions=True)
    stop_if_cancelled()
    failures: list[AttemptResult] = []
    for kind, error in zip(kinds, errors, strict=True):
        if isinstance(error, ActivityError) and not is_cancelled_exception(error):
            ledger.set_error(kind.kind, error_message(error))
            failures.append(failed_attempt(error))
        elif error is not None:
            raise error
    return next((f for f in failures if f.stops_every_kind), None)


async def _recycle_kind(
    opened: OpenedRound, plan: Plan, kind: KindPlan, ledger: Ledger, slots: asyncio.Semaphore, show: Callable[[], None]
) -> None:
    """Delete one kind range by range, until it is finished or the history is full."""
    name = kind.kind
    ledger.set_error(name, "")
    while not ledger.kinds[name].finished and not workflow.info().is_continue_as_new_suggested():
        async with slots:
            order, began = ledger.next_range(opened, plan, kind), workflow.now()
            try:
                receipt = await recycle_range(opened, kind, order, ledger)
            except (ActivityError, asyncio.CancelledError):
                ledger.add_elapsed(name, _milliseconds_since(began))
                raise
        ledger.add_range(name, receipt, _milliseconds_since(began))
        show()
        stop_if_cancelled()


def _milliseconds_since(began: dt.datetime) -> int:
    return round((workflow.now() - began).total_seconds() * 1000)
