"""Find Spark workers, send an activity to them, and recognise that none took it in time."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from activities.tick import SparkActivities
    from workflows import options


async def find_spark() -> str:
    """Return the task queue of Spark workers; empty where none runs or all are busy.

    By a local activity, which adds one event to the history instead of six: each range of a large kind asks.
    """
    return await workflow.execute_local_activity_method(SparkActivities.find_spark, **options.LOCAL_READ)


def on_spark(queue: str) -> dict[str, Any]:
    """Return the options that send an activity to Spark workers, which must take it within ``SPARK_WAIT``."""
    return {"task_queue": queue, "schedule_to_start_timeout": options.SPARK_WAIT}


def was_not_taken(error: ActivityError) -> bool:
    """Return whether an activity failed because no worker took it in time."""
    return isinstance(error.cause, TimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_START
