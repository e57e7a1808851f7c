"""Store the consumers of logs and what they have acknowledged.

Registering takes the same guard as a cut, so a consumer is registered either before a cut or after it.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.crash_points import reached
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MAX_RUNS, Consumer, Log
from sexton.replication.binlog.sql import rows
from sexton.replication.errors import RecordsTrimmed, TooManyRuns, UnknownConsumer
from sexton.replication.log_rows import check_names, log_condition


class ConsumerStore:
    """The consumers of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def register(self, instance: str, name: str, database: str, table: str = "", after: int | None = None) -> Consumer:
        """Register a consumer: records after ``after`` are not cut before it has acknowledged them.

        Registering again counts as a sign of life; ``after`` may then be lower than what was acknowledged; None: the
        consumer needs every record that the log has. ``table``: of the log that it reads; empty: the database's own
        log.

        Raises:
            UnknownInstance, UnknownLog: it does not exist.
            RecordsTrimmed: records that the consumer lacks are cut.
            BadInput: ``after`` is above the last record.
            TooManyRuns: the consumer is a run, and ``MAX_RUNS`` other runs of its job are registered.
        """
        check_names(database, table)
        check_names(name)
        db, t = self._db, self._db.t.binlog_consumer
        with deciding(db, instance) as c:
            reached("consumer.guarded")
            now, log = db.now(c), self._readable_log(c, instance, database, table)
            acked = log.floor if after is None else after
            _check_position(log, acked)
            job, is_run, _ = name.partition(":")
            if is_run:  # a consumer ``JOB:RUN``
                of_job = func.substr(t.c.name, 1, len(job) + 1) == f"{job}:"
                others = and_(log_condition(t, instance, (log.db, log.tbl)), of_job, t.c.name != name)
                count = c.execute(select(func.count()).where(others)).scalar_one()
                if count >= MAX_RUNS:
                    raise TooManyRuns(
                        f"job {job} has {count} runs as consumers of {log.name} already: remove those that have ended "
                        "(DELETE /v1/consumers/JOB:RUN)"
                    )
            values = {"acked": acked, "seen_at": now, "lost_at": None}
            new = upsert(t).values(instance=instance, name=name, db=database, tbl=table, since=now, **values)
            key = ["instance", "name", "db", "tbl"]
            row = c.execute(new.on_conflict_do_update(index_elements=key, set_=values).returning(t)).one()
            return Consumer(**row._mapping)

    def acknowledge(self, instance: str, name: str, database: str, table: str, seq: int) -> Consumer:
        """Record that a consumer has received all records up to ``seq``; a lower number than before changes nothing.

        A LOST consumer counts again, unless records that it lacks are cut.

        Raises:
            UnknownInstance, UnknownLog, UnknownConsumer: it does not exist.
            RecordsTrimmed: the consumer was LOST, and records that it lacks are cut.
            BadInput: there is no such record yet.
        """
        check_names(database, table, name)
        db, t = self._db, self._db.t.binlog_consumer
        this_consumer = self._condition(instance, name, database, table)
        with deciding(db, instance) as c:
            log = self._readable_log(c, instance, database, table)
            row = c.execute(select(t).where(this_consumer)).one_or_none()
            if row is None:
                raise UnknownConsumer(name, log.name)
            acked = max(seq, row.acked)
            _check_position(log, acked)
            values = {"acked": acked, "seen_at": db.now(c), "lost_at": None}
            c.execute(update(t).where(this_consumer).values(**values))
            return Consumer(**{**row._mapping, **values})

    def remove(self, instance: str, name: str, database: str, table: str = "") -> bool:
        """Remove a consumer, so that it blocks no cut; tell whether it was registered."""
        t = self._db.t.binlog_consumer
        with deciding(self._db, instance) as c:
            return c.execute(delete(t).where(self._condition(instance, name, database, table))).rowcount == 1

    def all(self, instance: str) -> Sequence[Consumer]:
        """Return every consumer of an instance, in the order of databases, tables and names."""
        t = self._db.t.binlog_consumer
        consumers = select(t).where(t.c.instance == instance).order_by(t.c.db, t.c.tbl, t.c.name)
        with self._db.read() as c:
            return [Consumer(**row._mapping) for row in c.execute(consumers)]

    def names(self, instance: str, database: str, table: str) -> Sequence[str]:
        """Return the names of one log's consumers."""
        t = self._db.t.binlog_consumer
        check_text(database, table)
        with self._db.read() as c:
            return c.execute(select(t.c.name).where(log_condition(t, instance, (database, table)))).scalars().all()

    def _condition(self, instance: str, name: str, database: str, table: str) -> ColumnElement[bool]:
        t = self._db.t.binlog_consumer
        return and_(log_condition(t, instance, (database, table)), t.c.name == name)

    def _readable_log(self, c: Connection, instance: str, database: str, table: str) -> Log:
        """Return the log; the last record of a table's log is that of its database, which may not name the table."""
        logs = rows.read_logs(self._db, c, instance, database, [table])
        log = rows.readable_log(logs, database, table)
        return log.model_copy(update={"last_seq": max(log.last_seq, log.floor, logs[""].last_seq)})


def _check_position(log: Log, acked: int) -> None:
    if acked < log.floor:
        raise RecordsTrimmed(log.name, acked, log.floor + 1)
    if acked > log.last_seq:
        raise BadInput(f"the last record of {log.name} is {log.last_seq}, so a consumer cannot have received {acked}")
