"""What requests about binlogs, replicas and the journal carry, and what is answered."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, FailFast, Field

from sexton.protocol.bodies import PRINTABLE, Body, Reason
from sexton.replication.binlog.model import MOST, Consumer, CutDone, Log
from sexton.replication.replicas.model import Replica

NAME = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029/]{1,128}$"
"""Of a database, a table, a consumer: it is a part of a path."""
ID = r"^[A-Za-z0-9.-]{1,128}$"


def _text(given: object) -> object:
    """Take numbers for ids: many databases number what they have."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Name = Annotated[str, BeforeValidator(_text), Field(pattern=NAME)]
Id = Annotated[str, BeforeValidator(_text), Field(pattern=ID)]
Seq = Annotated[int, Field(strict=True, ge=0, lt=MOST)]
"""A commit_seq, or a version."""
Size = Annotated[int, Field(strict=True, ge=0, le=MOST)]
Version = Annotated[int, Field(strict=True, ge=0, le=MOST)]
MOST_RECORDS, MOST_COPIES, MOST_REPORTED = 10_000, 100_000, 5_000
MOST_RANGES = 100_000


class LogConfig(Body):
    """How a log is kept. ``from_seq``: the database's commit_seq now; no earlier record is in a log that begins."""

    enable: bool = True
    ttl_seconds: Annotated[int, Field(strict=True)] | Literal["forever"] = "forever"
    max_bytes: Size | None = None
    max_history_nums: Size | None = None
    from_seq: Seq = 0


class NewRecord(Body):
    """A record. ``timestamp``: ms since 1970, 0: none. ``data``: of an UPSERT JSON with its ``tableRecords``."""

    commit_seq: Seq
    timestamp: Annotated[int, Field(strict=True, ge=0)] = 0
    tables: Annotated[tuple[Name, ...], Field(max_length=1_000)] = ()
    type: Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTABLE)] = "UPSERT"
    data: Annotated[str, Field(max_length=4 << 20)] = ""


class NewRecords(Body):
    """Records of a database, in any order, all of them behind those that were sent before."""

    records: Annotated[tuple[NewRecord, ...], FailFast(), Field(max_length=MOST_RECORDS)]


class Consuming(Body):
    """Which log a consumer reads. ``after``: the last record that it has; none: what is there is new to it."""

    db: Name
    table: Name | None = None
    after: Seq | None = None


class Acknowledgement(Body):
    """Up to which record a consumer has everything."""

    db: Name
    table: Name | None = None
    commit_seq: Seq


class PlacedCopy(Body):
    """A copy of a tablet. One that replaces another has a uid of its own."""

    backend: Id
    uid: Id


class PlacedTablet(Body):
    """A tablet with all of its copies."""

    tablet: Id
    partition: Id
    copies: Annotated[tuple[PlacedCopy, ...], Field(min_length=1, max_length=100)]


class Placements(Body):
    """All tablets of some partitions of a table."""

    tablets: Annotated[tuple[PlacedTablet, ...], FailFast(), Field(max_length=MOST_COPIES)] = ()
    dropped_partitions: Annotated[tuple[Id, ...], Field(max_length=MOST_COPIES)] = ()


Range = tuple[Version, Version]


class ReportedTablet(Body):
    """What a backend says of a copy: ``versions``, its rowsets' ranges, or ``version``, the last continuous one."""

    uid: Id
    versions: Annotated[tuple[Range, ...], Field(max_length=MOST_RANGES)] | None = None
    version: Annotated[int, Field(strict=True, ge=-1, le=MOST)] | None = None
    bad: bool = False
    version_miss: bool = False
    rows: Size = 0
    bytes: Size = 0


class BackendReport(Body):
    """A page of a backend's report: ``boot`` grows with each of its starts, ``sequence`` with each page."""

    boot: Size
    sequence: Size
    tablets: Annotated[tuple[ReportedTablet, ...], FailFast(), Field(max_length=MOST_REPORTED)] = ()


class FullCopy(Body):
    """Why a replica can only be repaired by a full copy."""

    reason: Reason


class CutsDone(Body):
    """What a backend has let go."""

    instance: Annotated[str, Field(max_length=63)] | None = None
    done: Annotated[tuple[CutDone, ...], FailFast(), Field(max_length=MOST_REPORTED)]


class LogsBody(BaseModel):
    """Logs, in the order of databases and tables."""

    logs: tuple[Log, ...]


class Consumers(BaseModel):
    """Consumers of binlogs."""

    consumers: tuple[Consumer, ...]


class Replicas(BaseModel):
    """Replicas; ``need``: the first version that one of a tablet's copies still has to get."""

    replicas: tuple[Replica, ...]
    need: int | None = None


class DroppedCopies(BaseModel):
    """How many copies of tablets are to let everything go."""

    replicas: int


class Decommissioned(BaseModel):
    """How many copies were forgotten."""

    replicas: int
