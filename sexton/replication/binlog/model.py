"""Values of binlogs: configuration, records, consumers, cuts, results and explanations. Instants are ms since 1970.

A *log* belongs to a database (``tbl`` is empty) or to one of its tables. If the database's own log is enabled, it
stores every record, and all tables are cut with it; otherwise each table has a log of its own.
"""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.replication.agent.model import GrantedCut, Swept
from sexton.replication.replicas.model import BackendStanding, Replica, RetainingReplica

MAX_COMMIT_SEQ = 2**62
"""Above every record number and version; the number after it still fits the column. A cut up to it is a full cut."""
MAX_RUNS = 10
"""The largest number of runs of one job, ``JOB:RUN``, that consume one log, as by default protections of a job."""
MAX_NAMES = 50_000
"""The largest number of tables and partitions, each a row, of several records at once. One record may have more."""
UPSERT = "UPSERT"
"""The type of a record that created versions of partitions."""


class BinlogSettings(Message):
    """Settings of binlog GC."""

    interval_seconds: int = 313
    hold_limit_seconds: int = 86_400
    """A consumer that is silent for this long becomes LOST: it no longer blocks a cut."""
    max_cut_fraction: float = 0.5
    """A cut of a larger fraction of a log's records needs an approval."""
    free_records: int = 1_000
    """A cut of at most this many records never needs an approval."""


class LogRetention(Message):
    """The retention of one log."""

    enabled: bool = True
    ttl_seconds: int | None = None
    """How long a record is retained; None: forever."""
    max_bytes: int | None = None
    max_history_nums: int | None = None


class Log(LogRetention):
    """A log with its configuration, counts and progress."""

    instance: str
    db: str
    tbl: str = ""
    last_seq: int = 0
    last_ts: int = 0
    records: int = 0
    """Records ever stored, including the ``gone_records`` that were cut."""
    bytes: int = 0
    gone_records: int = 0
    gone_bytes: int = 0
    watermark: int = 0
    """All records up to this number are cut."""
    starts_after: int = 0
    """The log has no record up to this number: the log did not exist yet, or was disabled."""
    skipped: int = 0
    """The last record that is missing because the log was disabled when it arrived."""
    cut_at: int | None = None
    held: dict[str, int] = Field(default_factory=dict)
    """Consumer → the last record it has acknowledged, for consumers that block the cut of expired records."""
    held_since: int | None = Field(None, alias="held_since_at")
    awaiting_seq: int | None = None
    """A cut up to this record waits for an operator's approval, because it exceeds the limit."""
    awaiting_since: int | None = Field(None, alias="awaiting_since_at")
    approved: int = 0
    dropped_at: int | None = None

    @property
    def floor(self) -> int:
        """Return the number up to which the log has no record to read."""
        return max(self.watermark, self.starts_after)

    @property
    def kept(self) -> int:
        """Return how many records the log has now."""
        return self.records - self.gone_records

    @property
    def name(self) -> str:
        """Return the displayed name: ``DB``, or ``DB/TABLE``."""
        return f"{self.db}/{self.tbl}" if self.tbl else self.db


class StoredRecord(Message):
    """One change. ``timestamp`` 0: the owner sent none, and the record counts as old as the one before it."""

    commit_seq: int
    timestamp: int = 0
    tables: tuple[str, ...] = ()
    type: str = UPSERT
    data: str = ""
    """JSON, as the owner wrote it. Sexton reads only the versions in the data of an UPSERT."""


class StoreResult(Message):
    """The result of a request to store records, in records."""

    stored: int = 0
    known: int = 0
    """Records that were stored before."""
    old: int = 0
    """Records that were cut before, and therefore are not stored again."""
    disabled: int = 0
    """Records whose database and tables have no enabled log."""


class RecordPage(Message):
    """A page of records. ``status``: ``OK``, or ``TOO_NEW`` if there is no newer record yet."""

    status: str = "OK"
    first: int = 0
    """The lowest number that a record of the log can have now."""
    last: int = 0
    records: tuple[StoredRecord, ...] = ()


class Consumer(Message):
    """A registered reader of a log."""

    instance: str
    name: str
    db: str
    tbl: str = ""
    acked: int
    """The consumer has received all records up to this number."""
    since: int = Field(0, alias="since_at")
    seen_at: int = 0
    lost_at: int | None = None
    """Since when the consumer is LOST: it blocks no cut."""


class RetentionBounds(Message):
    """Which records of a log its configuration retains: those that satisfy all three bounds."""

    after_ts: int | None = None
    after_n: int = 0
    from_byte: int = 0


class Cut(Message):
    """The record up to which a log is cut now, and what blocks the rest. ``seq`` is the watermark for an empty cut."""

    seq: int
    held: dict[str, int] = Field(default_factory=dict)
    awaiting_seq: int | None = None
    more: bool = False


class CutReport(Message):
    """The result of a run over all binlogs of an instance, in numbers."""

    logs: int = 0
    cut: int = 0
    records: int = 0
    held: int = 0
    waiting: int = 0
    """Logs whose cut waits for approval."""
    lost: int = 0
    """Consumers that became LOST in this run."""
    full_copy: int = 0
    """Replicas that became FULL_COPY_ONLY in this run."""
    more: bool = False
    """More can be cut at once: one transaction cuts some thousands of records."""
    refused: str = ""
    """Why the run cut nothing at all."""

    def __add__(self, other: "CutReport") -> "CutReport":
        """Return the sum of both reports."""
        numbers = CutReport.model_fields.keys() - {"more", "refused"}
        counts = {name: getattr(self, name) + getattr(other, name) for name in numbers}
        return CutReport(**counts, more=self.more or other.more, refused=self.refused or other.refused)


class CutPage(Message):
    """A page of grants for one backend. ``next``: the cursor of the next page; empty: this was the last page."""

    cuts: tuple[GrantedCut, ...] = ()
    next: str = ""
    why: str = ""
    """Why nothing may be deleted now: a stop, a policy list or a window."""


class AcknowledgeResult(Message):
    """How many acknowledgements of a backend were accepted."""

    taken: int = 0
    ignored: int = 0


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


PAGE_BACKENDS = 30
"""Backends per workflow run: each adds three events to the history."""


class GcRequest(Message):
    """Cut an instance's binlogs, and let backends delete theirs.

    A run that continues as new passes on its progress: ``after`` is the last backend it has handled.
    """

    deployment: str
    instance: str
    requested_by: str = ""
    after: str = ""
    cut: CutReport | None = None
    """The result of the cut; None: not cut yet."""
    swept: Swept = Swept()
    backends: int = 0
    away: int = 0


class WaitingOrder(Message):
    """Find the backends that have binlogs to delete and whose names sort after ``after``."""

    instance: str
    after: str = ""


class Backends(Message):
    """A page of backends that have binlogs to delete. ``more``: there is another page."""

    names: tuple[str, ...] = ()
    more: bool = False


class GcReport(Message):
    """The result of a run. ``away``: backends that did not take their task; they pull their cuts when they are back."""

    instance: str
    cut: CutReport = CutReport()
    swept: Swept = Swept()
    backends: int = 0
    away: int = 0
    cancelled: bool = False
    said: tuple[str, ...] = ()


class GcProgress(Message):
    """The progress of a run."""

    instance: str
    doing: str
    cut: CutReport = CutReport()
    swept: Swept = Swept()
    waits: int = 0
    """Backends that are deleting now."""
    away: int = 0
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0
