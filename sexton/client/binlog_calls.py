"""The requests about binlogs, replicas and the journal, as values. ``sexton.client.methods`` makes them methods.

The argument ``instance`` is needed where the deployment has several instances.
"""

from collections.abc import Iterable, Iterator, Sequence

from sexton.client.api_call import CHUNK_BYTES, ApiCall, Steps, url_path, url_query
from sexton.protocol.binlogs import (
    MAX_NAMES,
    MAX_RECORDS,
    Acknowledgement,
    Consumer,
    ConsumerRegistration,
    Consumers,
    DroppedCopies,
    Log,
    LogConfig,
    LogsBody,
    NewRecord,
    NewRecords,
    RecordPage,
    StoreResult,
)
from sexton.protocol.journal import JournalPage, JournalSnapshot
from sexton.protocol.replicas import (
    AcknowledgeResult,
    BackendReport,
    CutDone,
    CutPage,
    CutsDone,
    Decommissioned,
    FullCopy,
    Placements,
    PlaceResult,
    Replica,
    Replicas,
    ReportReceipt,
)

ANSWER_SECONDS = 30.0
"""How long the client waits for the answer to a long poll, beyond the poll's own wait."""


def logs(after: tuple[str, str] = ("", ""), instance: str | None = None) -> ApiCall[tuple[Log, ...]]:
    """Return at most 1,000 logs in the order of (database, table), beginning behind ``after``."""
    query = url_query(instance=instance, db=after[0], table=after[1])
    return ApiCall("GET", "/v1/databases", LogsBody, query=query, unwrap="logs")


def keep_log(db: str, config: LogConfig, table: str | None = None, instance: str | None = None) -> ApiCall[Log]:
    """Configure the log of a database, or of one of its tables. Send it before the log's first record."""
    return ApiCall("PUT", f"{_log_path(db, table)}/binlog", Log, config, url_query(instance=instance))


def add_records(db: str, records: Iterable[NewRecord], instance: str | None = None) -> Steps[StoreResult]:
    """Store records of a database in the order of its commits. A record that is already stored is not stored again.

    The records are sent in as many requests as needed. When one request fails, the records of the earlier requests are
    stored; send all records again.
    """
    stored = StoreResult()
    for chunk in chunks(records):
        answer: StoreResult = yield add_chunk(db, chunk, instance)
        stored = _sum(stored, answer)
    return stored


def add_chunk(db: str, records: Sequence[NewRecord], instance: str | None = None) -> ApiCall[StoreResult]:
    """Store one chunk of records."""
    body = NewRecords(records=tuple(records))
    return ApiCall("POST", url_path("databases", db, "binlogs"), StoreResult, body, url_query(instance=instance))


def chunks(records: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    """Yield the records in chunks that the API accepts; none if there are no records."""
    chunk, chunk_bytes, chunk_names = list[NewRecord](), 0, 0
    for record in records:
        record_bytes = len(record.model_dump_json()) + 1
        names = len(record.tables) + record.data.count(":")  # at least as many as it has: each is a key in the data
        is_large = chunk_bytes + record_bytes > CHUNK_BYTES or chunk_names + names > MAX_NAMES
        if chunk and (len(chunk) == MAX_RECORDS or is_large):
            yield chunk
            chunk, chunk_bytes, chunk_names = [], 0, 0
        chunk.append(record)
        chunk_bytes += record_bytes
        chunk_names += names
    if chunk:
        yield chunk


def _sum(one: StoreResult, other: StoreResult) -> StoreResult:
    return StoreResult(**{name: getattr(one, name) + getattr(other, name) for name in StoreResult.model_fields})


def read_records(
    db: str,
    table: str | None = None,
    after: int = 0,
    *,
    limit: int = 1_000,
    consumer: str | None = None,
    instance: str | None = None,
) -> ApiCall[RecordPage]:
    """Return the records of a log behind ``after``, with status ``TOO_NEW`` if there is none yet.

    Args:
        db: the database.
        table: the table; None: the database's own log.
        after: the last record that the caller has.
        limit: the largest number of records to return.
        consumer: the name of the consumer that reads; its own token (``sync:CONSUMER``) is accepted.
        instance: needed where there are several.

    Raises:
        TooOld: records behind ``after`` are deleted; the error's ``first`` is the first record that exists.
    """
    query = url_query(instance=instance, db=db, table=table, after=after, limit=limit, consumer=consumer)
    return ApiCall("GET", "/v1/binlogs", RecordPage, query=query)


def consumers(instance: str | None = None) -> ApiCall[tuple[Consumer, ...]]:
    """Return the consumers, the logs that they read, and what each has acknowledged."""
    return ApiCall("GET", "/v1/consumers", Consumers, query=url_query(instance=instance), unwrap="consumers")


def register_consumer(
    name: str, db: str, table: str | None = None, after: int | None = None, instance: str | None = None
) -> ApiCall[Consumer]:
    """Register a consumer that has everything up to ``after``; None: it has no record yet.

    From now on no record behind ``after`` is deleted before the consumer acknowledges it.

    Raises:
        TooOld: records behind ``after`` are already deleted.
    """
    body = ConsumerRegistration(db=db, table=table, after=after)
    return ApiCall("PUT", url_path("consumers", name), Consumer, body, url_query(instance=instance))


def acknowledge(
    name: str, db: str, seq: int, table: str | None = None, instance: str | None = None
) -> ApiCall[Consumer]:
    """Report that a consumer has every record up to ``seq``."""
    body = Acknowledgement(db=db, table=table, commit_seq=seq)
    return ApiCall("POST", url_path("consumers", name, "acknowledge"), Consumer, body, url_query(instance=instance))


def remove_consumer(name: str, db: str, table: str | None = None, instance: str | None = None) -> ApiCall[None]:
    """Remove a consumer, so that it no longer blocks the deletion of records."""
    return ApiCall("DELETE", url_path("consumers", name), None, query=url_query(instance=instance, db=db, table=table))


def drop_table(db: str, table: str, instance: str | None = None) -> ApiCall[int]:
    """Report that a table is dropped permanently, so that all of its binlogs are deleted.

    Return the number of its copies.
    """
    return _drop(_log_path(db, table), instance)


def drop_database(db: str, instance: str | None = None) -> ApiCall[int]:
    """Report that a database is dropped permanently; see ``drop_table``."""
    return _drop(_log_path(db, None), instance)


def _drop(path: str, instance: str | None) -> ApiCall[int]:
    return ApiCall("DELETE", path, DroppedCopies, query=url_query(instance=instance), unwrap="replicas")


def place_replicas(db: str, table: str, placements: Placements, instance: str | None = None) -> ApiCall[PlaceResult]:
    """Report where all copies of some partitions are. Send it before a copy gets its first version."""
    return ApiCall("PUT", f"{_log_path(db, table)}/replicas", PlaceResult, placements, url_query(instance=instance))


def report(backend: str, body: BackendReport, instance: str | None = None) -> ApiCall[ReportReceipt]:
    """Report which versions a backend's copies have."""
    return ApiCall("POST", url_path("backends", backend, "report"), ReportReceipt, body, url_query(instance=instance))


def decommission(backend: str, instance: str | None = None) -> ApiCall[int]:
    """Remove a backend that will never come back; return the number of its copies.

    The request is sent once: a repeated one would be refused because the backend is unknown.
    """
    query = url_query(instance=instance)
    path = url_path("backends", backend)
    return ApiCall("DELETE", path, Decommissioned, query=query, repeatable=False, unwrap="replicas")


def unwell(limit: int = 100, instance: str | None = None) -> ApiCall[tuple[Replica, ...]]:
    """Return unhealthy replicas, in the order of their tablets."""
    query = url_query(instance=instance, limit=limit)
    return ApiCall("GET", "/v1/replicas", Replicas, query=query, unwrap="replicas")


def replicas(tablet: str, instance: str | None = None) -> ApiCall[Replicas]:
    """Return the copies of a tablet, and the first version that they still need."""
    return ApiCall("GET", url_path("replicas", tablet), Replicas, query=url_query(instance=instance))


def full_copy(tablet: str, backend: str, reason: str, instance: str | None = None) -> ApiCall[Replica]:
    """Report that only a full copy repairs a replica, so that it no longer blocks the deletion of versions."""
    path = url_path("replicas", tablet, backend, "full-copy")
    return ApiCall("POST", path, Replica, FullCopy(reason=reason), url_query(instance=instance))


def cuts(node: str, after: str = "", limit: int = 1_000, instance: str | None = None) -> ApiCall[CutPage]:
    """Return the versions up to which a backend may delete the binlogs of its copies, for uids behind ``after``."""
    query = url_query(instance=instance, after=after, limit=limit)
    return ApiCall("GET", url_path("nodes", node, "cuts"), CutPage, query=query)


def acknowledge_cuts(node: str, done: Iterable[CutDone], instance: str | None = None) -> ApiCall[AcknowledgeResult]:
    """Report the versions that a backend has deleted."""
    body = CutsDone(instance=instance, done=tuple(done))
    return ApiCall("POST", url_path("nodes", node, "cuts"), AcknowledgeResult, body)


def journal(after: int, wait: float = 0, follower: str = "", instance: str | None = None) -> ApiCall[JournalPage]:
    """Return at most 100 entries of the journal behind ``after``.

    Args:
        after: the last entry that was applied; 0: none.
        wait: how many seconds, up to 30, the API waits for an entry if there is none yet.
        follower: the name of the follower; entries that it has not applied are retained for it.
        instance: needed where there are several.

    Raises:
        TooOld: entries behind ``after`` are deleted. Begin again with ``snapshot``.
        JournalAhead: there was never an entry ``after``. Begin again with ``snapshot``.
    """
    query = url_query(instance=instance, after=after, wait=wait, follower=follower or None)
    return ApiCall("GET", "/v1/journal", JournalPage, query=query, timeout_seconds=wait + ANSWER_SECONDS)


def snapshot(follower: str = "", instance: str | None = None) -> ApiCall[JournalSnapshot]:
    """Return the state that results from all entries of the journal."""
    query = url_query(instance=instance, follower=follower or None)
    return ApiCall("GET", "/v1/journal/snapshot", JournalSnapshot, query=query)


def _log_path(db: str, table: str | None) -> str:
    return url_path("databases", db) if table is None else url_path("databases", db, "tables", table)
