"""Timeouts and retries, named by patience."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

_RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))

CATALOG_WRITE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=120),
    "schedule_to_close_timeout": timedelta(minutes=15),
    "retry_policy": _RETRY,
}
"""A few statements; the database may be away for a while."""

BATCH_DELETE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(hours=4),
    "schedule_to_close_timeout": timedelta(hours=24),
    # Below the lease of 60 s: a dead worker's range is retried while the round still holds its lease.
    "heartbeat_timeout": timedelta(seconds=30),
    "retry_policy": _RETRY,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""A range of deletions; it heartbeats between pages."""
