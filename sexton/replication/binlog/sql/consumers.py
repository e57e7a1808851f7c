"""Who reads a log, and up to where. Registering decides as a cut does: a consumer comes before it or after it."""

from collections.abc import Sequence

from sqlalchemy import Connection, and_, delete, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import upsert
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.errors import RecordsTrimmed, UnknownConsumer
from sexton.replication.binlog.model import Consumer, Log
from sexton.replication.binlog.sql import rows
from sexton.replication.binlog.sql.config import check_names


class ConsumerStore:
    """Consumers of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def register(self, instance: str, name: str, database: str, table: str = "", after: int | None = None) -> Consumer:
        """Register a consumer that has everything up to a record; nothing behind that goes before it says so.

        Args:
            instance: whose database it is.
            name: of the consumer.
            database: whose log it reads.
            table: of which table; empty: the database's.
            after: the last record that it has; None: whatever is there is new to it.

        Registering again is as good as hearing of it; where it says that it has less than before, that holds.

        Raises:
            UnknownInstance, UnknownLog: there is none.
            TooOld: what it lacks is gone.
            BadInput: it has more than there is.
        """
        check_names(database, table)
        check_names(name)
        db, t = self._db, self._db.t.binlog_consumer
        with deciding(db, instance) as c:
            reached("consumer.guarded")
            now, its = db.now(c), self._standing(c, instance, database, table)
            at = its.floor if after is None else after
            _check(its, at)
            values = {"acked": at, "seen_at": now, "lost_at": None}
            new = upsert(db, t).values(instance=instance, name=name, db=database, tbl=table, since=now, **values)
            key = ["instance", "name", "db", "tbl"]
            row = c.execute(new.on_conflict_do_update(index_elements=key, set_=values).returning(t)).one()
            return Consumer(**row._mapping)

    def acknowledge(self, instance: str, name: str, database: str, table: str, seq: int) -> Consumer:
        """Say that a consumer has everything up to a record; one that it said before is as good.

        A consumer that was LOST counts again, if nothing is gone that it lacks.

        Raises:
            UnknownInstance, UnknownLog, UnknownConsumer: there is none.
            TooOld: it was LOST, and what it lacks is gone.
            BadInput: there is no such record yet.
        """
        check_names(database, table, name)
        db, t = self._db, self._db.t.binlog_consumer
        mine = and_(rows.one(t, instance, (database, table)), t.c.name == name)
        with deciding(db, instance) as c:
            its = self._standing(c, instance, database, table)
            row = c.execute(select(t).where(mine)).one_or_none()
            if row is None:
                raise UnknownConsumer(name, its.name)
            at = max(seq, row.acked)
            _check(its, at)
            values = {"acked": at, "seen_at": db.now(c), "lost_at": None}
            c.execute(update(t).where(mine).values(**values))
            return Consumer(**{**row._mapping, **values})

    def remove(self, instance: str, name: str, database: str, table: str = "") -> bool:
        """Let a consumer hold nothing any more; tell whether there was one."""
        t = self._db.t.binlog_consumer
        mine = and_(rows.one(t, instance, (database, table)), t.c.name == name)
        with deciding(self._db, instance) as c:
            return c.execute(delete(t).where(mine)).rowcount == 1

    def all(self, instance: str | None = None) -> Sequence[Consumer]:
        """Return every consumer, in the order of databases, tables and names."""
        t = self._db.t.binlog_consumer
        asked = select(t).order_by(t.c.instance, t.c.db, t.c.tbl, t.c.name)
        if instance is not None:
            asked = asked.where(t.c.instance == instance)
        with self._db.read() as c:
            return [Consumer(**r._mapping) for r in c.execute(asked)]

    def _standing(self, c: Connection, instance: str, database: str, table: str) -> Log:
        """Return the log; of a table as far as its database has come."""
        found = rows.logs(self._db, c, instance, database, [table])
        its = rows.standing(found, database, table)
        return its.model_copy(update={"last_seq": max(its.last_seq, its.floor, found[""].last_seq)})


def _check(log: Log, at: int) -> None:
    if at < log.floor:
        raise RecordsTrimmed(log.name, at, log.floor + 1)
    if at > log.last_seq:
        raise BadInput(f"{log.name} ends with record {log.last_seq}, so nobody has {at} of it")
