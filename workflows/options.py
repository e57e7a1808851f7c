"""Timeouts and retries of activities, named by patience."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

HEARTBEAT = timedelta(seconds=10)
"""After this long without a heartbeat a worker counts as dead, and its activity is retried on another one. Far below
the 60 s of a lease: the round still has its lease when the retry begins."""

SQL_READ: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=15),
    "schedule_to_close_timeout": timedelta(minutes=2),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5)),
}
"""A few queries for work that is repeated anyway, such as a tick."""

LOCAL_READ: dict[str, Any] = SQL_READ | {"start_to_close_timeout": timedelta(seconds=5)}
"""One query, in the worker that runs the workflow: nothing is recorded before it ends."""

SQL_WRITE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=120),
    "schedule_to_close_timeout": timedelta(minutes=15),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10)),
}
"""A few statements; the database may be unavailable for a while."""

PAGED: dict[str, Any] = SQL_WRITE | {
    "start_to_close_timeout": timedelta(hours=1),
    "schedule_to_close_timeout": timedelta(hours=2),
    # A cancel waits for the end of the page.
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Many short statements, with a heartbeat between two of them: a count of all due marks, the removal of old rows."""

LEASE: dict[str, Any] = {
    # Long: the activity also verifies every vault of the instance, and a silent vault is waited for.
    "start_to_close_timeout": timedelta(minutes=15),
    "schedule_to_close_timeout": timedelta(hours=24),
    "heartbeat_timeout": HEARTBEAT,
    # Short intervals: the lease of a killed round is taken over within 5 s of its expiry. Retries add no history.
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), backoff_coefficient=1.5, maximum_interval=timedelta(seconds=3)
    ),
    # A cancel waits for the result, so that a lease acquired meanwhile is released.
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Wait for a slot, or for the end of another round's lease."""

BATCH_DELETE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(hours=4),
    "schedule_to_close_timeout": timedelta(hours=24),
    "heartbeat_timeout": HEARTBEAT,
    # Few attempts: a signal cannot end an activity's own backoff, so the workflow backs off after these.
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5), maximum_attempts=5
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""A range of deletions, which heartbeats all the time."""

COMPARE: dict[str, Any] = BATCH_DELETE | {
    "start_to_close_timeout": timedelta(hours=12),
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=2), maximum_interval=timedelta(seconds=60), maximum_attempts=3
    ),
}
"""A comparison of all objects with all records, which heartbeats all the time."""

WAL_STEP: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=10),
    "schedule_to_close_timeout": timedelta(minutes=30),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10), maximum_attempts=5
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""A few requests to a log. A refusal by the log is a result, not a failure."""

WAL_FLUSH: dict[str, Any] = WAL_STEP | {
    # Then the purge goes on without: the regions of other topics, which do not flush, have all places.
    "schedule_to_start_timeout": timedelta(hours=1),
    "start_to_close_timeout": timedelta(hours=2),
    "schedule_to_close_timeout": timedelta(hours=6),
}
"""As ``WAL_STEP``, with the wait for regions to flush: up to an hour, by the settings."""

BACKEND_SWEEP: dict[str, Any] = {
    # A task that is not taken in time: the backend's worker is down. It asks for its cuts when it is back.
    "schedule_to_start_timeout": timedelta(seconds=60),
    "start_to_close_timeout": timedelta(hours=2),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10), maximum_attempts=3
    ),
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""Deletion of one storage node's binlogs, by the worker beside it."""

SPARK_WAIT = timedelta(seconds=20)
"""If no Spark worker takes an activity within this time, a control worker does it. The lease outlives this wait, also
when it begins after a worker's silence of ``HEARTBEAT``."""

MOST_ATTEMPTS = 100
"""Above the attempts that one queue's workers make at one range: those of the next queue count from here."""

FIRST_BACKOFF_SECONDS = 10.0
MAX_TRIES = 6
"""Failed kinds are retried after 10 s, 20 s, … 160 s; then the round fails, and the next round retries them."""
MOST_RANGES, SHORT_ACTIVITIES = 256, 16
"""Threads of a worker: the maximum for ranges, and those for all other activities. It has threads for the ranges of all
rounds that run at once, so that no range waits in a queue while its lease expires."""
PAGE_TOPICS = 100
"""Topics that a round purges together: one request to the log, and one statement for all of them."""
COMPARISONS_AT_ONCE = 4
"""Comparisons that one control worker runs at the same time. Each lasts for minutes to hours, needs most of a core and
a database connection all the time: they have a task queue and threads of their own, so that others never wait."""
FLUSHES_AT_ONCE = 32
"""Topics for whose flushes one worker waits at the same time. Each waits for up to an hour, and reads its topic's
regions once a second: they have a task queue and threads of their own, so that no purge waits behind them."""
COUNT_SECONDS = 30.0
"""When what the Temporal UI shows of a round or a check is counted again; later ever more rarely. Six events each."""
MAX_CHECK_TRIES = 3
"""A check that fails is tried again after 10 s and 20 s; then it ends without a result. Each try lists everything."""
MAX_LEASES_LOST = 5
"""Leases that one run may lose before it fails. A lease is lost if no worker renews it in time."""


def backoff(tries: int) -> float:
    """Return the seconds to wait after a number of failed tries (1 or more)."""
    return FIRST_BACKOFF_SECONDS * float(2 ** (tries - 1))


def activities_at_once(rounds: int, ranges: int) -> int:
    """Return how many activities a worker takes at once: for so many parallel rounds, of so many ranges at once."""
    return min(MOST_RANGES, ranges * rounds) + SHORT_ACTIVITIES
