"""Delete one range of a kind, or what earlier rounds claimed: many objects on Spark, others on a control worker."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutError

with workflow.unsafe.imports_passed_through():
    from activities.recycle import RecycleActivities
    from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder, RangeReceipt
    from sexton.recycle.planning.model import KindPlan
    from sexton.recycle.rounds.ledger import Ledger
    from sexton.recycle.rounds.model import OpenedRound
    from workflows import ids, options
    from workflows.details import error_message, error_type
    from workflows.options import BATCH_DELETE, MOST_ATTEMPTS
    from workflows.signals import stop_if_cancelled
    from workflows.spark import find_spark, on_spark, was_not_taken

ON_SPARK = "deleted on Spark"
NO_SPARK = "no Spark worker is free: deleted by a control worker"
SPARK_BROKEN = "{why}: a control worker deleted the rest"
SPARK_BUSY = "no Spark worker took it, or the rest of one that died, within {seconds:.0f} s: a control worker did"
Order = TypeVar("Order", RangeOrder, AdoptOrder)


async def recycle_range(opened: OpenedRound, kind: KindPlan, order: RangeOrder, ledger: Ledger) -> RangeReceipt:
    """Delete one range and return its receipt; note in the ledger whether a large kind runs on Spark, or why not."""
    name, progress = kind.kind, ledger.kinds[kind.kind]
    most = opened.heavy_objects if progress.tries_spark else None
    # The plan only estimates prefixes. A kind has a note if it, or an earlier range of it, had more objects.
    heavy = most is not None and (max(kind.objects, progress.objects) > most or progress.note != "")
    summary = f"{name}, range {order.number}"
    return await delete(RecycleActivities.recycle_range, order, summary, most, partial(ledger.note_spark, name), heavy)


async def delete(
    activity: Callable[[RecycleActivities, Order], RangeReceipt],
    order: Order,
    summary: str,
    most: int | None,
    note: Callable[[str, bool], None],
    heavy: bool = False,
) -> RangeReceipt:
    """Run an activity that deletes; Spark continues it if it has more than ``most`` objects (None: never).

    ``heavy``: the plan knows that it has. ``note`` receives where many were deleted, and whether Spark may delete more.
    """
    if not heavy:
        limited = order.model_copy(update={"most_objects": most})
        try:
            return await workflow.execute_activity_method(activity, limited, **BATCH_DELETE, summary=summary)
        except ActivityError as e:
            if error_type(e) != ids.TOO_MANY_OBJECTS:
                raise
            stop_if_cancelled()  # the activity may have ended before it saw that
            order = order.model_copy(update={"attempts": MOST_ATTEMPTS})
    if queue := await find_spark():
        try:
            receipt = await workflow.execute_activity_method(
                activity, order, **(BATCH_DELETE | on_spark(queue)), summary=f"{summary}, on Spark"
            )
            note(ON_SPARK, True)
            return receipt
        except ActivityError as e:
            if not (why := _spark_failure(e)):
                raise
            stop_if_cancelled()
            note(why, was_not_taken(e))
            # Spark's workers may have begun: their late writes are refused, because they are of an older attempt.
            order = order.model_copy(update={"attempts": order.attempts + MOST_ATTEMPTS})
    else:
        note(NO_SPARK, True)
    return await workflow.execute_activity_method(activity, order, **BATCH_DELETE, summary=summary)


def _spark_failure(error: ActivityError) -> str:
    """Return why Spark did not delete a range; empty if the error has another cause."""
    if was_not_taken(error):
        return SPARK_BUSY.format(seconds=options.SPARK_WAIT.total_seconds())
    if error_type(error) == ids.SPARK_FAILED or isinstance(error.cause, TimeoutError):  # its worker dies each time
        return SPARK_BROKEN.format(why=error_message(error))
    return ""
