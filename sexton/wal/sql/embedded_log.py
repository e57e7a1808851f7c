"""Keep a log with Kafka's semantics in Sexton's own database: for a demo on one machine, and tests without Kafka."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.errors import SextonError
from sexton.wal.model import Facts
from sexton.wal.port import LogFault

SAMPLE_ENTRIES = 100
"""The newest entries of a topic whose sizes are averaged."""


class OutOfRange(SextonError):
    """The entry to read lies before the first entry or behind the end; the reader must not continue elsewhere."""

    def __init__(self, topic: str, at: int, start: int, end: int) -> None:
        super().__init__(f"topic {topic}: {at} is out of range; its entries are {start}..{end - 1}")


class EmbeddedLog:
    """Implements ``wal.port.TopicLog``, and appends and reads."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, topic: str, *, partitions: int = 1, compacted: bool = False) -> None:
        """Create an empty topic; an existing topic of that name is deleted with its entries."""
        t = self._db.t.wal_log
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.name == topic))
            row = {"name": topic, "id": uuid.uuid4().hex, "partitions": partitions, "compacted": compacted}
            c.execute(insert(t).values(**row))

    def append(self, topic: str, payloads: Sequence[bytes]) -> int:
        """Append entries and return the id of the first; raises ``LogFault`` if there is no such topic."""
        t = self._db.t.wal_log
        with self._db.write() as c:
            # The update locks the row: one writer at a time, as a partition has.
            reserved = update(t).where(t.c.name == topic).values(log_end=t.c.log_end + len(payloads))
            end = c.execute(reserved.returning(t.c.log_end)).scalar_one_or_none()
            if end is None:
                raise _unknown_topic(topic)
            first = int(end) - len(payloads)
            if payloads:
                rows = [{"topic": topic, "id": first + n, "payload": payload} for n, payload in enumerate(payloads)]
                c.execute(insert(self._db.t.wal_entry), rows)
            return first

    def read(self, topic: str, at: int, limit: int = 1_000) -> Sequence[tuple[int, bytes]]:
        """Return entries from an id on, none at the end; raises ``OutOfRange`` before the first and behind the end."""
        e = self._db.t.wal_entry
        with self._db.snapshot() as c:
            row = c.execute(select(self._db.t.wal_log).where(self._db.t.wal_log.c.name == topic)).first()
            if row is None:
                raise _unknown_topic(topic)
            facts = _facts_of(row)
            if not facts.start <= at <= facts.end:
                raise OutOfRange(topic, at, facts.start, facts.end)
            entries = select(e.c.id, e.c.payload).where(e.c.topic == topic, e.c.id >= at).order_by(e.c.id).limit(limit)
            return [(row.id, row.payload) for row in c.execute(entries)]

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        t = self._db.t.wal_log
        with self._db.read() as c:
            rows = c.execute(select(t).where(in_list(t.c.name, topics)))
            facts = {row.name: _facts_of(row) for row in rows}
        return {name: facts.get(name) or _unknown_topic(name) for name in topics}

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        for topic, offset in offsets.items():
            if offset <= 0:
                raise ValueError(f"topic {topic}: offset {offset} is not above 0")
        t, e = self._db.t.wal_log, self._db.t.wal_entry
        answers: dict[str, int | LogFault] = {}
        for topic, offset in offsets.items():
            with self._db.write() as c:
                row = c.execute(select(t).where(t.c.name == topic).with_for_update()).first()
                if row is None:
                    answers[topic] = _unknown_topic(topic)
                elif row.compacted:
                    answers[topic] = LogFault(topic, "POLICY_VIOLATION", "it is compacted, not deleted", passes=False)
                elif offset > row.log_end:
                    answers[topic] = LogFault(topic, "OFFSET_OUT_OF_RANGE", f"{offset} is above its end", passes=False)
                else:
                    start = max(int(row.log_start), offset)
                    c.execute(delete(e).where(e.c.topic == topic, e.c.id < start))
                    c.execute(update(t).where(t.c.name == topic).values(log_start=start))
                    answers[topic] = start
        return answers

    def entry_sizes(self, topics: Mapping[str, Facts]) -> Mapping[str, float]:
        e = self._db.t.wal_entry
        averages: dict[str, float] = {}
        with self._db.read() as c:
            for name, facts in topics.items():
                sizes = select(func.length(e.c.payload).label("size")).where(e.c.topic == name)
                sample = sizes.where(e.c.id >= facts.end - SAMPLE_ENTRIES).limit(SAMPLE_ENTRIES).subquery()
                average = c.execute(select(func.avg(sample.c.size))).scalar_one()
                if average is not None:
                    averages[name] = float(average)
        return averages

    def check(self, topic: str) -> Sequence[str]:
        t = self._db.t.wal_log
        with self._db.read() as c:
            compacted = c.execute(select(t.c.compacted).where(t.c.name == topic)).scalar_one_or_none()
        return ["it is compacted: nothing can be deleted from its beginning"] if compacted else []


def _facts_of(row: Any) -> Facts:
    return Facts(id=row.id, partitions=row.partitions, start=row.log_start, end=row.log_end)


def _unknown_topic(topic: str) -> LogFault:
    return LogFault(topic, "UNKNOWN_TOPIC_OR_PART", "there is no such topic", passes=True)
