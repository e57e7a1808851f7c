"""Delete the rows of records that are in no log any longer, a few thousand per transaction; no reader waits for it."""

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, and_, delete, or_, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.crash_points import reached
from sexton.replication.binlog.model import Log
from sexton.replication.binlog.sql import rows
from sexton.replication.sql.log_rows import log_condition

ROWS_AT_ONCE = 5_000


class Remover:
    """Deletes rows of records. It can be interrupted anywhere and run again."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def remove(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Delete the rows below the watermarks; return how many (record, log) pairs were removed."""
        removed = 0
        for log in self._logs_with_leftovers(instance):
            while pairs := self._remove_chunk(log):
                removed += pairs
                reached("binlog.removed")
                heartbeat()
            if not log.tbl:
                self._remove_records_without_table(log, heartbeat)
        return removed

    def _logs_with_leftovers(self, instance: str) -> list[Log]:
        """Return the logs that have rows below their watermark: of each database its tables first."""
        t, position, b = self._db.t.binlog_log, self._db.t.binlog_table_record, self._db.t.binlog
        in_log = and_(position.c.instance == t.c.instance, position.c.db == t.c.db, position.c.tbl == t.c.tbl)
        in_database = and_(b.c.instance == t.c.instance, b.c.db == t.c.db, t.c.tbl == "")
        # Not EXISTS: PostgreSQL may hash its table, that is read all of it.
        pair = select(position.c.seq).where(in_log, position.c.seq <= t.c.watermark).order_by(position.c.seq).limit(1)
        record = select(b.c.seq).where(in_database, b.c.seq <= t.c.watermark).order_by(b.c.seq).limit(1)
        has_rows = or_(pair.scalar_subquery().is_not(None), record.scalar_subquery().is_not(None))
        leftovers = select(t).where(t.c.instance == instance, has_rows).order_by(t.c.db)
        with self._db.read() as c:
            logs = [Log(**row._mapping) for row in c.execute(leftovers)]
        return sorted(logs, key=lambda log: (log.db, log.tbl == "", log.tbl))

    def _remove_chunk(self, log: Log) -> int:
        """Remove some records from one log, and delete those that are in no other; return how many were removed."""
        position, part, b = self._db.t.binlog_table_record, self._db.t.binlog_partition_version, self._db.t.binlog
        key = (log.db, log.tbl)
        with self._db.write() as c:
            own_log = rows.lock_own_log(self._db, c, log.instance, log.db)  # it cannot be enabled meanwhile
            cut = and_(log_condition(position, log.instance, key), position.c.seq <= log.watermark)
            seqs = list(
                c.execute(select(position.c.seq).where(cut).order_by(position.c.seq).limit(ROWS_AT_ONCE)).scalars()
            )
            if not seqs:
                return 0
            c.execute(delete(position).where(log_condition(position, log.instance, key), position.c.seq <= seqs[-1]))
            c.execute(delete(part).where(log_condition(part, log.instance, key), part.c.seq <= seqs[-1]))
            removable = self._in_no_log(log, seqs)
            if own_log.enabled:
                removable &= b.c.seq <= own_log.watermark
            c.execute(delete(b).where(removable))
            return len(seqs)

    def _remove_records_without_table(self, own_log: Log, heartbeat: Callable[[], None]) -> None:
        """Delete records that only the database's log had: their tables are dropped, or were cut before."""
        b, after = self._db.t.binlog, -1
        of_database = and_(b.c.instance == own_log.instance, b.c.db == own_log.db)
        while True:
            with self._db.write() as c:
                cut = (
                    select(b.c.seq).where(of_database, b.c.seq > after, b.c.seq <= own_log.watermark).order_by(b.c.seq)
                )
                seqs = list(c.execute(cut.limit(ROWS_AT_ONCE)).scalars())
                if not seqs:
                    return
                c.execute(delete(b).where(self._in_no_log(own_log, seqs)))
                after = seqs[-1]
            heartbeat()

    def _in_no_log(self, log: Log, seqs: Sequence[int]) -> ColumnElement[bool]:
        """Return the condition that a record is one of these of a log's database, and in the log of no table."""
        b, position = self._db.t.binlog, self._db.t.binlog_table_record
        # Without statistics a planner filters by the list; then it reads no more than this range.
        in_range = and_(b.c.instance == log.instance, b.c.db == log.db, b.c.seq.between(seqs[0], seqs[-1]))
        of_database = and_(position.c.instance == b.c.instance, position.c.db == b.c.db)
        # An ordered range of one number, not EXISTS: its order leaves the planner only the index by number.
        same_record = and_(of_database, position.c.seq.between(b.c.seq, b.c.seq))
        in_a_log = select(position.c.seq).where(same_record).order_by(position.c.seq).limit(1).scalar_subquery()
        return and_(in_range, in_list(b.c.seq, seqs), in_a_log.is_(None))
