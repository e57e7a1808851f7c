"""Store the configuration of logs, approve cuts, and end the logs of a dropped table or database."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, delete, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, Log, LogRetention
from sexton.replication.binlog.sql import rows
from sexton.replication.errors import UnknownLog
from sexton.replication.journal.model import Op, Tombstone, gc_binlog
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.sql.rows import count_copies, drop_copies
from sexton.replication.sql.log_rows import check_names, ensure_log_rows, log_condition, scope_condition

COPIES_AT_ONCE = 10_000
NOTHING_BLOCKED: dict[str, Any] = {"held": {}, "held_since": None, "awaiting_seq": None, "awaiting_since": None}
"""What earlier runs recorded as blocking the cut is void after a change of the configuration and after a drop."""


class ConfigStore:
    """The logs of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db, self._journal = db, JournalStore(db)

    def put(self, instance: str, name: str, table: str, config: LogRetention, from_seq: int = 0) -> Log:
        """Set the configuration of a log; repeatable.

        Args:
            instance: the instance of the database.
            name: the database.
            table: the table of the log; empty: the database's own log.
            config: the new configuration.
            from_seq: the database's commit_seq now. A log that begins now has no record up to this number.

        Raises:
            UnknownInstance: no such instance.
            BadInput: the table or database is dropped, or a number is out of range.
        """
        check_names(name, table)
        if not 0 <= from_seq < MAX_COMMIT_SEQ:
            raise BadInput(f"a commit_seq is 0 to {MAX_COMMIT_SEQ - 1}, not {from_seq}")
        db, t = self._db, self._db.t.binlog_log
        with deciding(db, instance) as c:
            ensure_log_rows(db, c, instance, name)
            logs = rows.read_logs(db, c, instance, name, [table] if table else None, lock=True)
            own_log, before = logs[""], logs.get(table)
            if own_log.dropped_at is not None or (before is not None and before.dropped_at is not None):
                raise BadInput(f"{rows.log_name(name, table)} is dropped; names never come back: use another id")
            values: dict[str, Any] = config.model_dump() | NOTHING_BLOCKED
            last_seq = max(own_log.last_seq, from_seq)
            if config.enabled and (before is None or not before.enabled):
                incomplete = [log for log in logs.values() if _lacks_records(log, own_log, table, from_seq)]
                self._begin_after(c, instance, name, incomplete, last_seq)
                if before is None:
                    values |= {"starts_after": own_log.floor if own_log.enabled else last_seq}
            new = upsert(t).values(instance=instance, db=name, tbl=table, **values)
            c.execute(new.on_conflict_do_update(index_elements=["instance", "db", "tbl"], set_=values))
            return rows.read_logs(db, c, instance, name, [table])[table]

    def _begin_after(self, c: Connection, instance: str, name: str, incomplete: Sequence[Log], last_seq: int) -> None:
        """Let logs that lack records begin after ``last_seq``: a reader must not mistake the gap for no changes."""
        t = self._db.t.binlog_log
        if incomplete and last_seq:
            incomplete_rows = in_list(t.c.tbl, [log.tbl for log in incomplete])
            c.execute(
                update(t).where(t.c.instance == instance, t.c.db == name, incomplete_rows).values(starts_after=last_seq)
            )
            tables = tuple(log.tbl for log in incomplete if log.tbl)
            tombstone = Tombstone(database=len(tables) < len(incomplete), db=name, tables=tables, seq=last_seq)
            self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog([tombstone]))

    def logs(self, instance: str, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[Log]:
        """Return the logs after (database, table), in the order of database and table."""
        check_text(*after)
        t = self._db.t.binlog_log
        later = (t.c.db > after[0]) | and_(t.c.db == after[0], t.c.tbl > after[1])
        page = select(t).where(t.c.instance == instance, later).order_by(t.c.db, t.c.tbl).limit(limit)
        with self._db.read() as c:
            return [Log(**row._mapping) for row in c.execute(page)]

    def log(self, instance: str, name: str, table: str = "") -> Log:
        """Return one log, also if it is disabled or dropped; raises ``UnknownLog``."""
        with self._db.read() as c:
            return self._existing_log(c, instance, name, table)

    def approve(self, instance: str, name: str, table: str = "", *, upto: int) -> Log:
        """Let the next run cut what waits for approval, and no more.

        Args:
            instance: the instance of the database.
            name: the database.
            table: the table of the log; empty: the database's own log.
            upto: the last record that the operator was shown.

        Raises:
            UnknownInstance, UnknownLog: it does not exist.
            BadInput: no cut of the log waits, or only one that ends earlier.
        """
        t = self._db.t.binlog_log
        with deciding(self._db, instance) as c:
            log = self._existing_log(c, instance, name, table)
            if log.awaiting_seq is None:
                raise BadInput(f"no cut of {log.name} waits for approval; see: sexton binlog list")
            if upto > log.awaiting_seq:
                raise BadInput(f"a cut of {log.name} up to {log.awaiting_seq} waits, none up to {upto}")
            values = {"approved": upto, "awaiting_seq": None, "awaiting_since": None}
            c.execute(update(t).where(log_condition(t, instance, (name, table))).values(**values))
            return log.model_copy(update=values)

    def _existing_log(self, c: Connection, instance: str, name: str, table: str) -> Log:
        log = rows.read_logs(self._db, c, instance, name).get(table)
        if log is None:
            raise UnknownLog(rows.log_name(name, table))
        return log

    def drop(self, instance: str, name: str, table: str = "") -> int:
        """Record that a table or a database is dropped for good; return how many replicas it has. Repeatable.

        Its records are deleted, and its consumers and replicas no longer block anything: every backend may delete all
        its binlogs with the next pull, even if another backend has been dead for long. Call it again if it was
        interrupted.

        Raises:
            UnknownInstance: no such instance.
        """
        check_names(name, table)
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            ensure_log_rows(self._db, c, instance, name, table)
            logs = rows.read_logs(self._db, c, instance, name, lock=True)
            dropped = [log for log in logs.values() if log.dropped_at is None and (not table or log.tbl == table)]
            self._end_logs(c, instance, name, table, now)
            if dropped:
                tables = tuple(sorted(log.tbl for log in dropped if log.tbl))
                last_seq = max(log.last_seq for log in dropped)
                tombstone = Tombstone(database=not table, db=name, tables=tables, seq=last_seq, dropped=True)
                self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog([tombstone]))
        while True:  # grant all replicas everything; those whose backend has acknowledged have no row left
            with deciding(self._db, instance) as c:
                if drop_copies(self._db, c, instance, name, table, COPIES_AT_ONCE) < COPIES_AT_ONCE:
                    return count_copies(self._db, c, instance, name, table)

    def _end_logs(self, c: Connection, instance: str, name: str, table: str, now: int) -> None:
        """Cut dropped logs completely, and delete their consumers and the cuts of their partitions."""
        t, consumer, fold = self._db.t.binlog_log, self._db.t.binlog_consumer, self._db.t.binlog_partition_cut
        values = {"dropped_at": now, "watermark": MAX_COMMIT_SEQ} | NOTHING_BLOCKED
        c.execute(update(t).where(scope_condition(t, instance, name, table), t.c.dropped_at.is_(None)).values(**values))
        for of_log in (consumer, fold):
            c.execute(delete(of_log).where(scope_condition(of_log, instance, name, table)))


def _lacks_records(log: Log, own_log: Log, table: str, from_seq: int) -> bool:
    """Tell whether a log lacks records when the log of ``table`` (empty: the database's own) is enabled."""
    is_enabled_now = log.tbl == table or (not table and log.dropped_at is None)
    missed_records = from_seq > own_log.last_seq or log.skipped > log.floor
    database_has_them = bool(table) and own_log.enabled
    return is_enabled_now and missed_records and not database_has_them
