"""Delete the rows of records that are in no log any longer, a few thousand per transaction; no reader waits for it."""

from collections.abc import Callable

from sqlalchemy import Connection, and_, delete, select

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
        pairs_left = select(position.c.seq).where(in_log, position.c.seq <= t.c.watermark).exists()
        records_left = select(b.c.seq).where(in_database, b.c.seq <= t.c.watermark).exists()
        leftovers = select(t).where(t.c.instance == instance, pairs_left | records_left).order_by(t.c.db)
        with self._db.read() as c:
            logs = [rows.to_log(row) for row in c.execute(leftovers)]
        return sorted(logs, key=lambda log: (log.db, log.tbl == "", log.tbl))

    def _remove_chunk(self, log: Log) -> int:
        """Remove some records from one log, and delete those that are in no other; return how many were removed."""
        position, part, b = self._db.t.binlog_table_record, self._db.t.binlog_partition_version, self._db.t.binlog
        key = (log.db, log.tbl)
        with self._db.write() as c:
            own_log = self._lock_own_log(c, log)
            cut = and_(log_condition(position, log.instance, key), position.c.seq <= log.watermark)
            seqs = list(
                c.execute(select(position.c.seq).where(cut).order_by(position.c.seq).limit(ROWS_AT_ONCE)).scalars()
            )
            if not seqs:
                return 0
            c.execute(
                delete(position).where(
                    log_condition(position, log.instance, key), in_list(self._db, position.c.seq, seqs)
                )
            )
            c.execute(delete(part).where(log_condition(part, log.instance, key), part.c.seq <= seqs[-1]))
            in_a_log = and_(position.c.instance == b.c.instance, position.c.db == b.c.db, position.c.seq == b.c.seq)
            removable = [~select(position.c.seq).where(in_a_log).exists()]
            if own_log.enabled:
                removable.append(b.c.seq <= own_log.watermark)
            chunk = and_(b.c.instance == log.instance, b.c.db == log.db, in_list(self._db, b.c.seq, seqs))
            c.execute(delete(b).where(chunk, *removable))
            return len(seqs)

    def _remove_records_without_table(self, own_log: Log, heartbeat: Callable[[], None]) -> None:
        """Delete records that only the database's log had: their tables are dropped, or were cut before."""
        b, position, after = self._db.t.binlog, self._db.t.binlog_table_record, -1
        of_database = and_(b.c.instance == own_log.instance, b.c.db == own_log.db)
        in_a_log = and_(position.c.instance == b.c.instance, position.c.db == b.c.db, position.c.seq == b.c.seq)
        while True:
            with self._db.write() as c:
                cut = (
                    select(b.c.seq).where(of_database, b.c.seq > after, b.c.seq <= own_log.watermark).order_by(b.c.seq)
                )
                seqs = list(c.execute(cut.limit(ROWS_AT_ONCE)).scalars())
                if not seqs:
                    return
                in_no_log = ~select(position.c.seq).where(in_a_log).exists()
                c.execute(delete(b).where(of_database, in_list(self._db, b.c.seq, seqs), in_no_log))
                after = seqs[-1]
            heartbeat()

    def _lock_own_log(self, c: Connection, log: Log) -> Log:
        """Return the log of the database, locked so that it cannot be enabled meanwhile."""
        t = self._db.t.binlog_log
        own_row = select(t).where(log_condition(t, log.instance, (log.db, ""))).with_for_update()
        return rows.to_log(c.execute(own_row).one())
