"""Work that Spark's workers take, if one does in time."""

from typing import Any

from temporalio.exceptions import ActivityError, TimeoutError, TimeoutType

from workflows import options


def on_spark(queue: str) -> dict[str, Any]:
    """Return the options with which an activity waits for a Spark worker, and not for long."""
    return {"task_queue": queue, "schedule_to_start_timeout": options.SPARK_WAIT}


def nobody_took(error: ActivityError) -> bool:
    """Tell whether an activity ended because no worker took it in time."""
    return isinstance(error.cause, TimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_START
