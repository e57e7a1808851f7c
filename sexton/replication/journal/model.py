"""Entries of the journal with the op codes and field names of Doris, and the functions that build and read bodies.

Reading never fails: a part that cannot be read is left out, and the rest counts. Ids are text; numbers are accepted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from sexton.kernel.message import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")
MAX_ENTRY_NAMES = 250
"""How many tablets, or tables, one entry names at most, so that no page of a journal is much larger than another."""


class Op(IntEnum):
    """The op code of an entry. A follower skips other codes."""

    BACKEND_TABLETS_INFO = 46
    """Replicas that are bad. Deprecated; followers still apply it."""
    BACKEND_REPLICAS_INFO = 48
    """The changes that a backend's report made."""
    GC_BINLOG = 435
    """Binlogs that expired, or whose table or database was dropped."""


class ReportKind(StrEnum):
    """The outcome of a report for a replica. A follower skips a kind that it does not know."""

    BAD = "BAD"
    MISSING_VERSION = "MISSING_VERSION"
    HEALTHY = "HEALTHY"
    """It was bad or missing a version before. Not in the seed, whose followers never learn of it."""


class _DorisMessage(Message):
    model_config = ConfigDict(frozen=True, populate_by_name=True, coerce_numbers_to_str=True, serialize_by_alias=True)


class Tombstone(_DorisMessage):
    """All records of a log up to ``seq`` are cut: of a database and its tables, or only of some tables."""

    database: bool = Field(alias="dbBinlogTombstone")
    db: str = Field(alias="dbId")
    tables: tuple[str, ...] | None = Field(None, alias="tableIds")
    seq: int = Field(alias="commitSeq")
    dropped: bool = False
    """The tables, or the whole database, are dropped."""


class ReplicaOutcome(_DorisMessage):
    """The outcome of a report for one replica."""

    tablet: str = Field(alias="tabletId")
    kind: str = Field(alias="type")
    failed: int = Field(-1, alias="lastFailedVersion")


class JournalEntry(Message):
    """One entry; ``at`` in ms since 1970."""

    seq: int
    op: int
    body: dict[str, Any]
    at: int = Field(0, alias="happened_at")


class Follower(Message):
    """A reader that applies the entries of a journal."""

    instance: str
    name: str
    applied: int
    seen_at: int
    lost_at: int | None = None


class JournalPage(Message):
    """A page of entries in their order. ``head``: the number of the last entry of the journal."""

    entries: tuple[JournalEntry, ...] = ()
    head: int = 0


class LogWatermark(Message):
    """The record up to which a log is cut; ``tbl`` is empty for a database's own log."""

    db: str
    tbl: str = ""
    seq: int
    dropped: bool = False


class UnhealthyReplica(Message):
    """The outcome of an unhealthy replica on a backend."""

    backend: str
    outcome: ReplicaOutcome


class JournalSnapshot(Message):
    """The state after all entries up to ``seq``, for a follower that has missed some."""

    seq: int
    marks: tuple[LogWatermark, ...] = ()
    replicas: tuple[UnhealthyReplica, ...] = ()
    """The unhealthy replicas; all others are healthy."""


def gc_binlog(tombstones: Iterable[Tombstone]) -> list[dict[str, Any]]:
    """Return the bodies of entries 435: of one, or of several if it would be too large."""
    bodies, names = list[dict[str, Any]](), MAX_ENTRY_NAMES
    for whole in tombstones:
        batches: Iterable[Sequence[str] | None] = _batches(whole.tables) if whole.tables else [whole.tables]
        for tables in batches:
            names += len(tables or ()) or 1
            if names > MAX_ENTRY_NAMES:
                bodies.append({"tombstones": []})
                names = len(tables or ()) or 1
            tombstone = whole.model_copy(update={"tables": tables})
            bodies[-1]["tombstones"].append(tombstone.model_dump(by_alias=True, exclude_defaults=True))
    return bodies


def replicas_info(backend: str, reports: Sequence[ReplicaOutcome]) -> list[dict[str, Any]]:
    """Return the bodies of entries 48: of one, or of several if it would be too large."""
    infos = [outcome.model_dump(by_alias=True) for outcome in reports]
    return [{"backendId": backend, "replicaReportInfos": batch} for batch in _batches(infos)]


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + MAX_ENTRY_NAMES] for first in range(0, len(items), MAX_ENTRY_NAMES))


def parse_tombstones(body: Mapping[str, Any]) -> list[Tombstone]:
    """Return the tombstones of an entry 435 that can be read."""
    return _readable(Tombstone, body.get("tombstones"))


def parse_outcomes(op: int, body: Mapping[str, Any]) -> tuple[str, list[ReplicaOutcome]]:
    """Return the backend of an entry 48 or 46, and the outcomes that can be read; ("", []) if there is none."""
    backend = body.get("backendId")
    if isinstance(backend, bool) or not isinstance(backend, str | int):
        return "", []
    if op == Op.BACKEND_REPLICAS_INFO:
        return str(backend), _readable(ReplicaOutcome, body.get("replicaReportInfos"))
    if body.get("bad") is not True:
        return "", []
    # An entry 46 names its tablets in either of two forms.
    pairs, infos = _list(body.get("tabletSchemaHash")), _list(body.get("replicaPersistInfos"))
    ids = [pair.get("first") if isinstance(pair, dict) else (_list(pair) or [None])[0] for pair in pairs]
    ids += [info.get("tabletId") for info in infos if isinstance(info, dict)]
    return str(backend), _readable(ReplicaOutcome, [{"tabletId": id_, "type": ReportKind.BAD} for id_ in ids])


def _readable(kind: type[M], items: Any) -> list[M]:
    """Return the items that can be read as ``kind``."""
    values = []
    for item in _list(items):
        try:
            values.append(kind.model_validate(item))
        except ValidationError:
            continue
    return values


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
