"""Delete one range of a kind: on Spark where the kind has many objects, otherwise on a control worker."""

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.recycle import RecycleActivities
    from sexton.recycle.pipeline.model import RangeOrder, RangeReceipt
    from sexton.recycle.planning.model import KindPlan
    from sexton.recycle.rounds.ledger import Ledger
    from sexton.recycle.rounds.model import OpenedRound
    from workflows import ids, options
    from workflows.errors import error_message, error_type
    from workflows.options import BATCH_DELETE, MOST_SPARK_ATTEMPTS
    from workflows.spark import find_spark, on_spark, was_not_taken

ON_SPARK = "deleted on Spark"
NO_SPARK = "no Spark worker is free: deleted by a control worker"
SPARK_BROKEN = "{why}: a control worker deleted the rest"
SPARK_BUSY = "no Spark worker took it, or the rest of one that died, within {seconds:.0f} s: a control worker did"


async def recycle_range(opened: OpenedRound, kind: KindPlan, order: RangeOrder, ledger: Ledger) -> RangeReceipt:
    """Delete one range and return its receipt; note in the ledger whether a large kind runs on Spark, or why not."""
    summary = f"{kind.kind}, range {order.number}"
    heavy = opened.heavy_objects is not None and kind.objects > opened.heavy_objects
    if heavy and ledger.kinds[kind.kind].tries_spark:
        if queue := await find_spark():
            try:
                receipt = await workflow.execute_activity_method(
                    RecycleActivities.recycle_range,
                    order,
                    **(BATCH_DELETE | on_spark(queue)),
                    summary=f"{summary}, on Spark",
                )
                ledger.note_spark(kind.kind, ON_SPARK)
                return receipt
            except ActivityError as e:
                why = _spark_failure(e)
                if not why:
                    raise
                ledger.note_spark(kind.kind, why, again=was_not_taken(e))
                # Spark's workers may have begun: their late writes are refused, because they are of an older attempt.
                order = order.model_copy(update={"attempts": MOST_SPARK_ATTEMPTS})
        else:
            ledger.note_spark(kind.kind, NO_SPARK)
    return await workflow.execute_activity_method(
        RecycleActivities.recycle_range, order, **BATCH_DELETE, summary=summary
    )


def _spark_failure(error: ActivityError) -> str:
    """Return why Spark did not delete a range; empty if the error has another cause."""
    if was_not_taken(error):
        return SPARK_BUSY.format(seconds=options.SPARK_WAIT.total_seconds())
    if error_type(error) == ids.SPARK_FAILED:
        return SPARK_BROKEN.format(why=error_message(error))
    return ""
