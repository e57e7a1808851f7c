"""Send an activity to Spark workers, and recognise that none took it in time."""

from typing import Any

from temporalio.exceptions import ActivityError, TimeoutError, TimeoutType

from workflows import options


def on_spark(queue: str) -> dict[str, Any]:
    """Return the options that send an activity to Spark workers, which must take it within ``SPARK_WAIT``."""
    return {"task_queue": queue, "schedule_to_start_timeout": options.SPARK_WAIT}


def was_not_taken(error: ActivityError) -> bool:
    """Return whether an activity failed because no worker took it in time."""
    return isinstance(error.cause, TimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_START
