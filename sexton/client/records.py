"""Send the records of a binlog in as many requests as needed."""

from collections.abc import Iterable, Iterator

from sexton.client.api_call import CHUNK_BYTES, Steps, request
from sexton.operations.binlogs import MAX_RECORDS, NewRecord, NewRecords
from sexton.replication.binlog.model import MAX_NAMES, StoreResult


def add_records(db: str, records: Iterable[NewRecord], instance: str = "") -> Steps[StoreResult]:
    """Store records of a database in the order of its commits. A record that is already stored is not stored again.

    The records are sent in as many requests as needed. When one request fails, the records of the earlier requests are
    stored; send all records again.
    """
    stored = StoreResult()
    for chunk in chunks(records):
        answer: StoreResult = yield request(
            "add_chunk", db=db, body=NewRecords(records=tuple(chunk)), instance=instance
        )
        stored = _sum(stored, answer)
    return stored


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
