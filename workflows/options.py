"""Timeouts and retries, named by patience."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

HEARTBEAT = timedelta(seconds=10)
"""After this long without a heartbeat a worker is dead, and what it did is retried elsewhere. Far below the lease of
60 s: the round still holds it then."""

CATALOG_READ: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=15),
    "schedule_to_close_timeout": timedelta(minutes=2),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5)),
}
"""A few look-ups for something that comes again by itself."""

CATALOG_WRITE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=120),
    "schedule_to_close_timeout": timedelta(minutes=15),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10)),
}
"""A few statements; the database may be away for a while."""

LEASE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(
        minutes=15
    ),  # it also proves every vault of the instance; silent ones take long
    "schedule_to_close_timeout": timedelta(hours=24),
    "heartbeat_timeout": HEARTBEAT,
    # Often: a lease that a killed round left behind is taken over within 5 s of its end. Retries make no history.
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), backoff_coefficient=1.5, maximum_interval=timedelta(seconds=3)
    ),
    # Cancelled while it acquires: the answer is waited for, so that what was acquired is given back.
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Wait for a slot, or for the end of somebody's lease."""

BATCH_DELETE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(hours=4),
    "schedule_to_close_timeout": timedelta(hours=24),
    "heartbeat_timeout": HEARTBEAT,
    # Few: a signal cannot break an activity's own backoff, so the workflow waits and tries again.
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5), maximum_attempts=5
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""A range of deletions; it heartbeats all the time."""

COMPARE: dict[str, Any] = BATCH_DELETE | {
    "start_to_close_timeout": timedelta(hours=12),
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=2), maximum_interval=timedelta(seconds=60), maximum_attempts=5
    ),
}
"""A comparison of all objects with all records; it heartbeats all the time."""

WAL_PAGE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=10),
    "schedule_to_close_timeout": timedelta(minutes=30),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10), maximum_attempts=5
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""A few requests to a log for up to a hundred topics; what a topic's log refuses is an answer."""

WAL_FLUSH: dict[str, Any] = WAL_PAGE | {
    "start_to_close_timeout": timedelta(hours=2),
    "schedule_to_close_timeout": timedelta(hours=6),
}
"""The same, with regions that are waited for: up to an hour by the settings."""

BACKEND_SWEEP: dict[str, Any] = {
    # Nobody beside the backend takes it: it is away, and asks by itself when it is back.
    "schedule_to_start_timeout": timedelta(seconds=60),
    "start_to_close_timeout": timedelta(hours=2),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10), maximum_attempts=3
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Files of one storage node, by a worker beside it."""

SPARK_WAIT = timedelta(seconds=60)
"""After this long without a Spark worker that takes it, work goes another way."""

MOST_SPARK_ATTEMPTS = 100
"""More than Spark's workers ever make of one range: who goes on after them counts from here."""

FIRST_BACKOFF_SECONDS = 10.0
MAX_TRIES = 6
"""Failed kinds are tried again after 10 s, 20 s, … 160 s; then the round fails, and its next try is a new one."""
RANGES_AT_ONCE = 4
"""Ranges of one round under way at the same time; a worker has room for those of ``recycle_concurrency`` rounds, so
that none waits in a queue while its lease runs out."""
MOST_RANGES, SHORT_ACTIVITIES = 256, 16
"""Threads of a worker: for ranges at most, and for everything else."""
MAX_LEASES_LOST = 5
"""Leases one run may lose; it loses one when its worker was away for longer than a lease."""


def backoff(tries: int) -> float:
    """Return the seconds to wait after so many failed tries."""
    return FIRST_BACKOFF_SECONDS * float(2 ** (tries - 1))


def activities_at_once(rounds: int, pages: int = 0) -> int:
    """Return the activities one worker should take at once, where so many rounds and pages of topics may run."""
    return min(MOST_RANGES, RANGES_AT_ONCE * rounds) + pages + SHORT_ACTIVITIES
