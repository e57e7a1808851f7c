"""The options of a Temporal worker that runs activities on threads."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from config.settings import Settings
from sexton.runtime.temporal.versions import deployment_config

SHUTDOWN = timedelta(seconds=20)
"""Longer than a page: deletions under way are finished and recorded before a worker ends."""


def slots(settings: Settings, number: int) -> dict[str, Any]:
    """Return the options of a worker of this build that runs so many activities at once, each on a thread."""
    return {
        "deployment_config": deployment_config(settings),
        "activity_executor": ThreadPoolExecutor(number, thread_name_prefix="activity"),
        "max_concurrent_activities": number,
        "max_heartbeat_throttle_interval": timedelta(seconds=1),
        "graceful_shutdown_timeout": SHUTDOWN,
    }
