"""Entries of the journal, by the numbers and in the words of Doris, and how a body is read that may hold anything.

Reading is total: what is not understood is left out, and the rest counts. Ids are text here; numbers are taken too.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from sexton.kernel.message import Message

M = TypeVar("M", bound=Message)


class Op(IntEnum):
    """What an entry is about. Others are skipped."""

    BACKEND_TABLETS_INFO = 46
    """Deprecated, and replayed still: replicas that are bad."""
    BACKEND_REPLICAS_INFO = 48
    """What a backend's report changed."""
    GC_BINLOG = 435
    """Binlogs that expired, or whose table or database was dropped."""


class ReportKind(StrEnum):
    """What a report says of a replica. Whoever does not know a kind skips it."""

    BAD = "BAD"
    MISSING_VERSION = "MISSING_VERSION"
    HEALTHY = "HEALTHY"
    """It was one of the others and is not any more. Not in the seed, whose followers never hear of that."""


class _Word(Message):
    model_config = ConfigDict(frozen=True, populate_by_name=True, coerce_numbers_to_str=True, serialize_by_alias=True)


class Tombstone(_Word):
    """All records of a log up to ``seq`` are gone: of a database and its tables, or of some tables alone."""

    database: bool = Field(alias="dbBinlogTombstone")
    db: str = Field(alias="dbId")
    tables: tuple[str, ...] | None = Field(None, alias="tableIds")
    seq: int = Field(alias="commitSeq")
    dropped: bool = False
    """The tables, or the whole database, are no more."""


class ReplicaOutcome(_Word):
    """What became of one replica."""

    tablet: str = Field(alias="tabletId")
    kind: str = Field(alias="type")
    failed: int = Field(-1, alias="lastFailedVersion")


class JournalEntry(Message):
    """One entry; ``at`` in ms since 1970."""

    seq: int
    op: int
    body: dict[str, Any]
    at: int = 0


class Follower(Message):
    """Who replays a journal."""

    instance: str
    name: str
    applied: int
    seen_at: int
    lost_at: int | None = None


class JournalPage(Message):
    """Entries behind one, in their order. ``head``: the last there is."""

    entries: tuple[JournalEntry, ...] = ()
    head: int = 0


class Mark(Message):
    """Up to where a log is gone; ``tbl`` is empty for the one of a database."""

    db: str
    tbl: str = ""
    seq: int
    dropped: bool = False


class Snapshot(Message):
    """What a follower begins with that has missed entries: all that those up to ``seq`` amount to."""

    seq: int
    marks: tuple[Mark, ...] = ()
    replicas: tuple[tuple[str, ReplicaOutcome], ...] = ()
    """(backend, what is wrong with its replica); the others are healthy."""


def gc_binlog(tombstones: Iterable[Tombstone]) -> dict[str, Any]:
    """Return the body of an entry 435."""
    return {"tombstones": [t.model_dump(by_alias=True, exclude_defaults=True) for t in tombstones]}


def replicas_info(backend: str, reports: Iterable[ReplicaOutcome]) -> dict[str, Any]:
    """Return the body of an entry 48."""
    return {"backendId": backend, "replicaReportInfos": [r.model_dump(by_alias=True) for r in reports]}


def tombstones(body: Mapping[str, Any]) -> list[Tombstone]:
    """Return those of an entry 435 that can be understood."""
    return _each(Tombstone, body.get("tombstones"))


def reports(op: int, body: Mapping[str, Any]) -> tuple[str, list[ReplicaOutcome]]:
    """Return the backend of an entry 48 or 46, and what it says of replicas, as far as that can be understood."""
    backend = body.get("backendId")
    if isinstance(backend, bool) or not isinstance(backend, str | int):
        return "", []
    if op == Op.BACKEND_REPLICAS_INFO:
        return str(backend), _each(ReplicaOutcome, body.get("replicaReportInfos"))
    if body.get("bad") is not True:
        return "", []
    pairs, infos = _list(body.get("tabletSchemaHash")), _list(body.get("replicaPersistInfos"))
    ids = [p.get("first") if isinstance(p, dict) else (_list(p) or [None])[0] for p in pairs]
    ids += [i.get("tabletId") for i in infos if isinstance(i, dict)]
    return str(backend), _each(ReplicaOutcome, [{"tabletId": i, "type": ReportKind.BAD} for i in ids])


def _each(kind: type[M], given: Any) -> list[M]:
    found = []
    for item in _list(given):
        try:
            found.append(kind.model_validate(item))
        except ValidationError:
            continue
    return found


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []
