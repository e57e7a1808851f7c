"""A log in Sexton's own database, with Kafka's semantics: for a demo on one machine, and as Kafka's double in tests."""

import uuid
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.errors import SextonError
from sexton.wal.model import Facts
from sexton.wal.port import LogFault

WEIGHED = 100
"""So many of a topic's newest entries are looked at for their size."""


class OutOfRange(SextonError):
    """What is to be read lies before the first entry, or behind the end. A reader must not go on as if nothing were."""

    def __init__(self, topic: str, at: int, start: int, end: int) -> None:
        super().__init__(f"topic {topic}: {at} is out of range; there are {start}..{end - 1}")


class EmbeddedLog:
    """Implements ``wal.port.Log``; and appends and reads."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, topic: str, *, partitions: int = 1, compacted: bool = False) -> None:
        """Make a topic, empty; one of that name is lost with its entries."""
        t = self._db.t.wal_log
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.name == topic))
            row = {"name": topic, "id": uuid.uuid4().hex, "partitions": partitions, "compacted": compacted}
            c.execute(insert(t).values(**row))

    def append(self, topic: str, payloads: Sequence[bytes]) -> int:
        """Append entries, and return the id of the first; raises ``LogFault`` where there is no such topic."""
        t = self._db.t.wal_log
        with self._db.write() as c:
            # One writer at a time, as a partition has.
            taken = update(t).where(t.c.name == topic).values(log_end=t.c.log_end + len(payloads))
            end = c.execute(taken.returning(t.c.log_end)).scalar_one_or_none()
            if end is None:
                raise _unknown(topic)
            first = int(end) - len(payloads)
            if payloads:
                rows = [{"topic": topic, "id": first + n, "payload": p} for n, p in enumerate(payloads)]
                c.execute(insert(self._db.t.wal_entry), rows)
            return first

    def read(self, topic: str, at: int, limit: int = 1_000) -> Sequence[tuple[int, bytes]]:
        """Return entries from one on, none at the end; raises ``OutOfRange`` before the first and behind the end."""
        e = self._db.t.wal_entry
        with self._db.snapshot() as c:
            its = self._log(c, topic)
            if not its.start <= at <= its.end:
                raise OutOfRange(topic, at, its.start, its.end)
            asked = select(e.c.id, e.c.payload).where(e.c.topic == topic, e.c.id >= at).order_by(e.c.id).limit(limit)
            return [(row.id, row.payload) for row in c.execute(asked)]

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        with self._db.read() as c:
            t = self._db.t.wal_log
            there = {r.name: _facts(r) for r in c.execute(select(t).where(in_list(self._db, t.c.name, topics)))}
        return {name: there.get(name) or _unknown(name) for name in topics}

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        for topic, offset in offsets.items():
            if offset <= 0:
                raise ValueError(f"topic {topic}: offset {offset} is not above 0")
        return {topic: self._delete(topic, offset) for topic, offset in offsets.items()}

    def weigh(self, topics: Mapping[str, Facts]) -> Mapping[str, float]:
        e, found = self._db.t.wal_entry, dict[str, float]()
        with self._db.read() as c:
            for name, its in topics.items():
                newest = select(func.length(e.c.payload).label("size")).where(e.c.topic == name)
                some = newest.where(e.c.id >= its.end - WEIGHED).limit(WEIGHED).subquery()
                size = c.execute(select(func.avg(some.c.size))).scalar_one()
                found |= {} if size is None else {name: float(size)}
        return found

    def check(self, topic: str) -> Sequence[str]:
        t = self._db.t.wal_log
        with self._db.read() as c:
            compacted = c.execute(select(t.c.compacted).where(t.c.name == topic)).scalar_one_or_none()
        return ["it is compacted: nothing can be deleted from its beginning"] if compacted else []

    def _delete(self, topic: str, offset: int) -> int | LogFault:
        t, e = self._db.t.wal_log, self._db.t.wal_entry
        with self._db.write() as c:
            row = c.execute(select(t).where(t.c.name == topic).with_for_update()).first()
            if row is None:
                return _unknown(topic)
            if row.compacted:
                return LogFault(topic, "POLICY_VIOLATION", "it is compacted, not deleted", passes=False)
            if offset > row.log_end:
                return LogFault(topic, "OFFSET_OUT_OF_RANGE", f"{offset} is above its end", passes=False)
            start = max(int(row.log_start), offset)
            c.execute(delete(e).where(e.c.topic == topic, e.c.id < start))
            c.execute(update(t).where(t.c.name == topic).values(log_start=start))
            return start

    def _log(self, c: Connection, topic: str) -> Facts:
        t = self._db.t.wal_log
        row = c.execute(select(t).where(t.c.name == topic)).first()
        if row is None:
            raise _unknown(topic)
        return _facts(row)


def _facts(row: object) -> Facts:
    return Facts(id=row.id, partitions=row.partitions, start=row.log_start, end=row.log_end)  # type: ignore[attr-defined]


def _unknown(topic: str) -> LogFault:
    return LogFault(topic, "UNKNOWN_TOPIC_OR_PART", "there is no such topic", passes=True)
