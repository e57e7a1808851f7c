"""The options of a Temporal worker that runs activities on threads."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

SHUTDOWN = timedelta(seconds=20)
"""Longer than a page: deletions under way are finished and recorded before a worker ends."""


def slots(number: int) -> dict[str, Any]:
    """Return the options of a worker that runs so many activities at once, each on a thread."""
    return {
        "activity_executor": ThreadPoolExecutor(number, thread_name_prefix="activity"),
        "max_concurrent_activities": number,
        "max_heartbeat_throttle_interval": timedelta(seconds=1),
        "graceful_shutdown_timeout": SHUTDOWN,
    }
