"""Binlogs: their configuration, records and consumers."""

from typing import Annotated, Literal

from pydantic import BaseModel, FailFast, Field

from sexton.kernel.message import Message
from sexton.protocol.body import PRINTABLE, Body
from sexton.protocol.names import Name, Seq, Size
from sexton.replication.binlog.model import MAX_NAMES, Consumer, Log, RecordPage, StoreResult

__all__ = [
    "MAX_NAMES",
    "MAX_RECORDS",
    "Acknowledgement",
    "Consumer",
    "ConsumerRegistration",
    "Consumers",
    "CutApproval",
    "DroppedCopies",
    "Log",
    "LogConfig",
    "LogsBody",
    "NewRecord",
    "NewRecords",
    "RecordPage",
    "StartedGc",
    "StoreResult",
]
MAX_RECORDS = 10_000


class LogConfig(Body):
    """How long a log is kept. ``from_seq``: the database's commit_seq now; a new log has no earlier record."""

    enable: bool = True
    ttl_seconds: Annotated[int, Field(strict=True)] | Literal["forever"] = "forever"
    max_bytes: Size | None = None
    max_history_nums: Size | None = None
    from_seq: Seq = 0


class CutApproval(Body):
    """The last record of a very large cut that may be deleted, ``awaiting_seq`` of the log as it was shown."""

    upto: Seq


class StartedGc(Message):
    """The binlog GC that was started."""

    instance: str
    workflow: str
    run: str


class NewRecord(Body):
    """A record. ``timestamp``: ms since 1970, 0: none. ``data``: for an UPSERT, JSON with its ``tableRecords``."""

    commit_seq: Seq
    timestamp: Annotated[int, Field(strict=True, ge=0)] = 0
    tables: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()
    type: Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTABLE)] = "UPSERT"
    data: Annotated[str, Field(max_length=4 << 20)] = ""


class NewRecords(Body):
    """Records of a database, in any order; each comes after all records that were sent before."""

    records: Annotated[tuple[NewRecord, ...], FailFast(), Field(max_length=MAX_RECORDS)]


class ConsumerRegistration(Body):
    """The log that a consumer reads. ``after``: the last record that it has; None: it has none."""

    db: Name
    table: Name | None = None
    after: Seq | None = None


class Acknowledgement(Body):
    """The record up to which a consumer has everything."""

    db: Name
    table: Name | None = None
    commit_seq: Seq


class LogsBody(BaseModel):
    """Logs, in the order of databases and tables."""

    logs: tuple[Log, ...]


class Consumers(BaseModel):
    """Consumers of binlogs."""

    consumers: tuple[Consumer, ...]


class DroppedCopies(BaseModel):
    """The number of tablet copies whose binlogs are deleted because of a drop."""

    replicas: int
