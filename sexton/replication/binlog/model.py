"""Binlogs as values: configuration, records, consumers, and what a round does. Instants in ms since 1970.

A *log* is a database's (``tbl`` is empty) or one of its tables'. Where the database's log is enabled it holds every
record, and all tables are cut with it; where it is not, each table has its own.
"""

from pydantic import Field

from sexton.kernel.message import Message

MOST = 2**62
"""The largest number of a record or version: the one behind it can still be held. A cut up to it takes everything."""
UPSERT = "UPSERT"
"""The type of a record that made versions of partitions."""


class BinlogSettings(Message):
    """What binlogs and replicas run with."""

    interval_seconds: int = 313
    hold_limit_seconds: int = 86_400
    """For so long somebody silent holds a cut back; then he is LOST."""
    max_cut_fraction: float = 0.5
    """Of a log's records, that may go at once unasked."""
    free_records: int = 1_000
    """So many may always go unasked."""


class Config(Message):
    """How a log is kept."""

    enabled: bool = True
    ttl_seconds: int | None = None
    """How long a record stays; None: for ever."""
    max_bytes: int | None = None
    max_history_nums: int | None = None


class Log(Config):
    """A log as it is known."""

    instance: str
    db: str
    tbl: str = ""
    last_seq: int = 0
    last_ts: int = 0
    records: int = 0
    """Ever stored; ``gone_records`` of them are gone."""
    bytes: int = 0
    gone_records: int = 0
    gone_bytes: int = 0
    watermark: int = 0
    """Up to this record all is gone."""
    begins: int = 0
    """No record up to this one is in the log: nobody kept it then."""
    skipped: int = 0
    """The last record that is not in it because nobody kept it."""
    cut_at: int | None = None
    held: dict[str, int] = Field(default_factory=dict)
    """Consumer → up to where it has everything: who keeps what has expired."""
    held_since: int | None = None
    wants: int | None = None
    """Up to where a cut waits for a person's approval, for it takes very much."""
    wants_since: int | None = None
    approved: int = 0
    dropped_at: int | None = None

    @property
    def floor(self) -> int:
        """Return up to which record there is nothing to read."""
        return max(self.watermark, self.begins)

    @property
    def kept(self) -> int:
        """Return how many records there are."""
        return self.records - self.gone_records

    @property
    def name(self) -> str:
        """Return what it is called: ``DB``, or ``DB/TABLE``."""
        return f"{self.db}/{self.tbl}" if self.tbl else self.db


class Record(Message):
    """What changed. ``timestamp`` 0: the owner has none, and it is taken to be as old as the one before it."""

    commit_seq: int
    timestamp: int = 0
    tables: tuple[str, ...] = ()
    type: str = UPSERT
    data: str = ""
    """In JSON, as the owner wrote it; of an UPSERT the versions that it made are read."""


class Stored(Message):
    """What became of records that were sent."""

    stored: int = 0
    known: int = 0
    """They were there before."""
    old: int = 0
    """They had been cut before, so they are not stored again."""
    disabled: int = 0
    """Neither their database nor a table of theirs has a log."""


class Read(Message):
    """Records behind one. ``status``: ``OK``, or ``TOO_NEW`` where there is none yet."""

    status: str = "OK"
    first: int = 0
    """The lowest number that a record of the log can have now."""
    last: int = 0
    records: tuple[Record, ...] = ()


class Consumer(Message):
    """Who reads a log."""

    instance: str
    name: str
    db: str
    tbl: str = ""
    acked: int
    """Up to this record it has everything."""
    since: int = 0
    seen_at: int = 0
    lost_at: int | None = None
    """Since when it holds nothing back any more."""


class Bounds(Message):
    """What of a log is kept by its configuration: records that satisfy all of these."""

    after_ts: int | None = None
    after_n: int = 0
    from_byte: int = 0

    @property
    def all(self) -> bool:
        """Tell whether nothing goes."""
        return self.after_ts is None and self.after_n <= 0 and self.from_byte <= 0


class Cut(Message):
    """Up to where a log goes now, and why no further. ``seq`` is the watermark where nothing goes."""

    seq: int
    held: dict[str, int] = Field(default_factory=dict)
    wants: int | None = None
    more: bool = False


class CutReport(Message):
    """What a look at all binlogs of an instance came to, in numbers."""

    logs: int = 0
    cut: int = 0
    records: int = 0
    held: int = 0
    waiting: int = 0
    """Logs whose cut waits for approval."""
    lost: int = 0
    """Consumers that are LOST since now."""
    full_copy: int = 0
    """Replicas that no longer count since now."""
    more: bool = False
    """There is more to cut at once: a cut takes some thousands of records at a time."""
    refused: str = ""
    """Why nothing was cut at all."""

    def __add__(self, other: "CutReport") -> "CutReport":
        """Return both together."""
        words = ("more", "refused")
        numbers = {n: getattr(self, n) + getattr(other, n) for n in CutReport.model_fields if n not in words}
        return CutReport(**numbers, more=self.more or other.more, refused=self.refused or other.refused)


class Granted(Message):
    """All binlogs of a tablet up to a version may go from a backend."""

    uid: str
    tablet: str
    version: int


class CutPage(Message):
    """Cuts of one backend. ``next``: where to go on; empty: that was the last page."""

    cuts: tuple[Granted, ...] = ()
    next: str = ""
    why: str = ""
    """Why nothing may go now, where that is so: a stop, a list, a window."""


class CutDone(Message):
    """What a backend did: all up to ``version`` is gone, whatever the outcome."""

    uid: str
    version: int
    outcome: str = "done"
    detail: str = ""


class Taken(Message):
    """What became of what a backend told."""

    taken: int = 0
    ignored: int = 0
