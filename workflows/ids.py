"""Names of workflows, task queues, schedules, waits. Ids begin with the deployment: several may share a namespace."""

from sexton.marks.kept import WAITS as WAITS

RECYCLE = "recycle-instance"
"""Workflow type of a round."""
TICK = "recycle-tick"
"""Workflow type that starts due rounds."""
CHECK = "check-instance"
"""Workflow type of a check."""
PURGE_WAL = "purge-wal"
"""Workflow type of the purge of one topic."""
PURGE_WAL_ROUND = "purge-wal-round"
"""Workflow type that starts the purges of the topics that are due."""
GC_BINLOG = "gc-binlog"
"""Workflow type that cuts an instance's binlogs."""
GC_FAILED = "GcBinlogFailed"
"""Error type of a binlog GC that did not finish."""
PURGE_FAILED = "PurgeFailed"
"""Error type of a purge that failed in each of its attempts."""
ROUND_FAILED = "RoundFailed"
"""Error type of a round that did not finish; its first detail is the round's number, its report is stored."""
LEASE_LOST = "LeaseLost"
HALTED = "Halted"
NOT_ENABLED = "NotEnabled"
SPARK_FAILED = "SparkFailed"
TOO_MANY_OBJECTS = "TooManyObjects"
"""Error types of activities that a round reacts to: the class names of the errors (a test compares them)."""
SCHEDULED = "schedule"
"""``requested_by`` of workflows that a tick started. The end of such a round triggers the schedule again."""


SHOWN = "shown"
"""Patch: the workflow counts again and again what it shows, and has its plan in its memo. Older histories have none."""


PAUSED, BACKING_OFF = WAITS


def recycle(deployment: str, instance: str) -> str:
    """Return the workflow id of an instance's rounds: one at a time, scheduled or by hand."""
    return f"{deployment}/recycle/{instance}"


def tick(deployment: str) -> str:
    """Return the id of the schedule that starts due rounds, and of its workflows."""
    return f"{deployment}/tick"


def check(deployment: str, instance: str) -> str:
    """Return the workflow id of an instance's checks: one at a time, scheduled or by hand."""
    return f"{deployment}/check/{instance}"


def purge_wal(deployment: str, topic: str) -> str:
    """Return the workflow id of a topic's purges: one at a time, scheduled or by hand."""
    return f"{deployment}/purge-wal/{topic}"


def purge_wal_round(deployment: str) -> str:
    """Return the workflow id of the rounds of topics: one at a time, scheduled or by hand."""
    return f"{deployment}/purge-wal-round"


def gc_binlog(deployment: str, instance: str) -> str:
    """Return the workflow id of an instance's binlog GCs: one at a time, scheduled or by hand."""
    return f"{deployment}/gc-binlog/{instance}"


def spark_queue(deployment: str) -> str:
    """Return the task queue of Spark workers."""
    return f"{deployment}/spark"


def compare_queue(deployment: str) -> str:
    """Return the task queue of comparisons without Spark: they last for hours, and must not occupy other slots."""
    return f"{deployment}/compare"


def topic_queue(deployment: str) -> str:
    """Return the task queue of the steps that read and purge a topic."""
    return f"{deployment}/topics"


def flush_queue(deployment: str) -> str:
    """Return the task queue of the waits for flushes, which last for minutes."""
    return f"{deployment}/flushes"


def backend_queue(deployment: str, backend: str) -> str:
    """Return the task queue of the worker beside one storage node."""
    return f"{deployment}/backend-{backend}"


def control_queue(deployment: str) -> str:
    """Return the task queue of workflows and light activities."""
    return f"{deployment}/control"
