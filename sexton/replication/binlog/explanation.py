"""What a cut of a log would do now, what blocks the rest, and counts over all logs. Values only."""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.replication.binlog.model import Consumer, Cut, Log
from sexton.replication.replicas.model import BackendStanding, Replica, RetainingReplica


class LogCounts(Message):
    """Counts over all logs. ``databases``: those that have or had a log; ``logs``: those that are cut by themselves."""

    databases: int = 0
    logs: int = 0
    records: int = 0
    bytes: int = 0
    held: int = 0
    waiting: int = 0
    """Logs whose cut waits for approval."""
    consumers: int = 0
    lost: int = 0
    """The consumers that are LOST."""
    behind: int = 0
    """Backends with replicas that have binlogs to delete."""
    refused: int = 0
    """Instances whose last run cut nothing because of the clock."""


class LastRun(Message):
    """The last run over an instance's binlogs; ``refused``: why it cut nothing."""

    checked_at: int | None = None
    ok_at: int | None = None
    refused: str = ""


class LogCutPreview(Message):
    """A log, and what a cut would do to it, in records."""

    log: Log
    cut: Cut
    expired: int = 0
    """Records that the configuration no longer retains."""
    goes: int = 0
    """The expired records that a cut would delete now."""
    waits: int = 0
    """Records that an approval would let a run cut: up to ``cut.awaiting_seq``, or the last run's."""


class RetainingCopy(Message):
    """A replica for which other replicas retain versions; ``why`` in words."""

    replica: Replica
    why: str


class LogExplanation(Message):
    """The log of a database, or those of its tables, and everything that affects their cuts. Instants in ms."""

    instance: str
    db: str
    tbl: str = ""
    own: Log
    """The database's own log."""
    dropped_at: int | None = None
    """Since when the table or database is dropped: all its records are deleted."""
    lines: tuple[LogCutPreview, ...] = ()
    logs: int = 0
    """How many logs there are; ``lines`` has the first hundred."""
    halted: str = ""
    """Why nothing of the instance may be deleted now: observe mode, a stop, a policy list or a window."""
    clock: str = ""
    """Why the next run will cut nothing."""
    look: LastRun = LastRun()
    consumers: tuple[Consumer, ...] = ()
    """The readers of the logs, including those that are LOST."""
    lost_after_seconds: int = 0
    backends: tuple[BackendStanding, ...] = ()
    """Backends whose replicas of the tables have binlogs to delete."""
    holders: tuple[RetainingReplica, ...] = ()
    """Replicas for which others retain versions, counted by backend."""
    named: tuple[RetainingCopy, ...] = ()
    """The first few of those replicas."""
    now: int = Field(0, alias="now_at")
