"""What can be asked about binlogs, replicas and the journal, as values; see ``calls``.

``instance`` is needed where there are several.
"""

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from sexton.client.calls import CHUNK_BYTES, ApiCall
from sexton.protocol import binlog_bodies as bodies
from sexton.replication.binlog.model import Consumer, CutDone, CutPage, Log, Read, Stored, Taken
from sexton.replication.journal.model import JournalPage, Snapshot
from sexton.replication.replicas.model import Placed, Replica, ReportReceipt

ANSWER_SECONDS = 30.0
"""For an answer, once the API has one: a long poll takes that longer."""


def logs(after: tuple[str, str] = ("", ""), instance: str | None = None) -> ApiCall[bodies.LogsBody]:
    """Logs behind one, a thousand at most."""
    return ApiCall("GET", "/v1/databases", bodies.LogsBody, query=_query(instance, db=after[0], table=after[1]))


def keep_log(db: str, config: bodies.LogConfig, table: str | None = None, instance: str | None = None) -> ApiCall[Log]:
    """How a log is kept."""
    return ApiCall("PUT", f"{_log(db, table)}/binlog", Log, config, _query(instance))


def add_records(db: str, records: Sequence[bodies.NewRecord], instance: str | None = None) -> ApiCall[Stored]:
    """Records of a database; ``chunks`` makes pieces that the API takes."""
    body = bodies.NewRecords(records=tuple(records))
    return ApiCall("POST", f"/v1/databases/{_name(db)}/binlogs", Stored, body, _query(instance))


def read_records(
    db: str,
    table: str | None = None,
    after: int = 0,
    limit: int = 1_000,
    consumer: str | None = None,
    instance: str | None = None,
) -> ApiCall[Read]:
    """Records of a log behind one."""
    query = _query(instance, db=db, table=table, after=after, limit=limit, consumer=consumer)
    return ApiCall("GET", "/v1/binlogs", Read, query=query)


def consumers(instance: str | None = None) -> ApiCall[bodies.Consumers]:
    """Who reads which log."""
    return ApiCall("GET", "/v1/consumers", bodies.Consumers, query=_query(instance))


def register_consumer(
    name: str, db: str, table: str | None = None, after: int | None = None, instance: str | None = None
) -> ApiCall[Consumer]:
    """A consumer, and the last record that it has."""
    body = bodies.Consuming(db=db, table=table, after=after)
    return ApiCall("PUT", f"/v1/consumers/{_name(name)}", Consumer, body, _query(instance))


def acknowledge(
    name: str, db: str, seq: int, table: str | None = None, instance: str | None = None
) -> ApiCall[Consumer]:
    """Up to which record a consumer has everything."""
    body = bodies.Acknowledgement(db=db, table=table, commit_seq=seq)
    return ApiCall("POST", f"/v1/consumers/{_name(name)}/acknowledge", Consumer, body, _query(instance))


def remove_consumer(name: str, db: str, table: str | None = None, instance: str | None = None) -> ApiCall[None]:
    """A consumer that holds nothing any more."""
    return ApiCall("DELETE", f"/v1/consumers/{_name(name)}", None, query=_query(instance, db=db, table=table))


def drop(db: str, table: str | None = None, instance: str | None = None) -> ApiCall[bodies.DroppedCopies]:
    """A table, or a whole database, that is dropped for good."""
    return ApiCall("DELETE", _log(db, table), bodies.DroppedCopies, query=_query(instance))


def place_replicas(db: str, table: str, placements: bodies.Placements, instance: str | None = None) -> ApiCall[Placed]:
    """Where the copies of some partitions are."""
    return ApiCall("PUT", f"{_log(db, table)}/replicas", Placed, placements, _query(instance))


def report(backend: str, body: bodies.BackendReport, instance: str | None = None) -> ApiCall[ReportReceipt]:
    """What a backend says of its copies."""
    return ApiCall("POST", f"/v1/backends/{_name(backend)}/report", ReportReceipt, body, _query(instance))


def decommission(backend: str, instance: str | None = None) -> ApiCall[bodies.Decommissioned]:
    """A backend that will never come back. Sent again it is not known, so it is sent once."""
    path = f"/v1/backends/{_name(backend)}"
    return ApiCall("DELETE", path, bodies.Decommissioned, query=_query(instance), repeatable=False)


def unwell(limit: int = 100, instance: str | None = None) -> ApiCall[bodies.Replicas]:
    """Copies with which something is wrong."""
    return ApiCall("GET", "/v1/replicas", bodies.Replicas, query=_query(instance, limit=limit))


def replicas(tablet: str, instance: str | None = None) -> ApiCall[bodies.Replicas]:
    """The copies of one tablet, and what they need."""
    return ApiCall("GET", f"/v1/replicas/{_name(tablet)}", bodies.Replicas, query=_query(instance))


def full_copy(tablet: str, backend: str, reason: str, instance: str | None = None) -> ApiCall[Replica]:
    """A copy that only a full copy repairs."""
    path = f"/v1/replicas/{_name(tablet)}/{_name(backend)}/full-copy"
    return ApiCall("POST", path, Replica, bodies.FullCopy(reason=reason), _query(instance))


def cuts(node: str, after: str = "", limit: int = 1_000, instance: str | None = None) -> ApiCall[CutPage]:
    """Up to which version the binlogs of a backend's copies may go."""
    query = _query(instance, after=after, limit=limit)
    return ApiCall("GET", f"/v1/nodes/{_name(node)}/cuts", CutPage, query=query)


def acknowledge_cuts(node: str, done: Iterable[CutDone], instance: str | None = None) -> ApiCall[Taken]:
    """What is gone from a backend."""
    body = bodies.CutsDone(instance=instance, done=tuple(done))
    return ApiCall("POST", f"/v1/nodes/{_name(node)}/cuts", Taken, body)


def journal(after: int, wait: float = 0, follower: str = "", instance: str | None = None) -> ApiCall[JournalPage]:
    """Entries behind one; ``wait``: for so many seconds, where there is none."""
    query = _query(instance, after=after, wait=wait, follower=follower or None)
    return ApiCall("GET", "/v1/journal", JournalPage, query=query)


def snapshot(follower: str = "", instance: str | None = None) -> ApiCall[Snapshot]:
    """What all entries of the journal amount to."""
    return ApiCall("GET", "/v1/journal/snapshot", Snapshot, query=_query(instance, follower=follower or None))


def chunks(records: Iterable[bodies.NewRecord]) -> Iterator[list[bodies.NewRecord]]:
    """Yield records in pieces that the API takes, whatever their number."""
    some, size = list[bodies.NewRecord](), 0
    for record in records:
        its = len(record.model_dump_json()) + 1
        if some and (len(some) == bodies.MOST_RECORDS or size + its > CHUNK_BYTES):
            yield some
            some, size = [], 0
        some.append(record)
        size += its
    if some:
        yield some


def both(one: Stored, other: Stored) -> Stored:
    """Return what became of two chunks."""
    return Stored(**{name: getattr(one, name) + getattr(other, name) for name in Stored.model_fields})


def _query(instance: str | None, **given: object) -> dict[str, str]:
    return {name: str(value) for name, value in {"instance": instance, **given}.items() if value is not None}


def _log(db: str, table: str | None) -> str:
    return f"/v1/databases/{_name(db)}" + ("" if table is None else f"/tables/{_name(table)}")


def _name(name: str) -> str:
    return quote(name, safe="")
