"""Store the configuration of logs, approve cuts, end dropped logs, and find what is due for a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.operators.call_log import record_work
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, BinlogSettings, Log, LogRetention
from sexton.replication.binlog.sql import rows
from sexton.replication.errors import UnknownLog
from sexton.replication.journal.model import Op, Tombstone, gc_binlog
from sexton.replication.journal.store import JournalStore
from sexton.replication.log_rows import check_names, ensure_log_rows, log_condition, scope_condition
from sexton.replication.replicas.sql.rows import count_copies, drop_copies

COPIES_AT_ONCE = 10_000
NOTHING_BLOCKED: dict[str, Any] = {"held": {}, "held_since": None, "awaiting_seq": None, "awaiting_since": None}
"""What earlier runs recorded as blocking the cut is void after a change of the configuration and after a drop."""


class ConfigStore:
    """The logs of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db, self._journal = db, JournalStore(db)

    def put(self, instance: str, name: str, table: str, config: LogRetention, from_seq: int = 0) -> Log:
        """Set the configuration of a log, of a table or (empty) the database's own; repeatable.

        ``from_seq``: the database's commit_seq now. A log that begins now has no record up to this number.

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
                self._begin_after(c, logs, table, last_seq)
                if before is None:
                    values |= {"starts_after": own_log.floor if own_log.enabled else last_seq}
            new = upsert(t).values(instance=instance, db=name, tbl=table, **values)
            c.execute(new.on_conflict_do_update(index_elements=["instance", "db", "tbl"], set_=values))
            return rows.read_logs(db, c, instance, name, [table])[table]

    def _begin_after(self, c: Connection, logs: Mapping[str, Log], table: str, last_seq: int) -> None:
        """Let logs that lack records begin after ``last_seq``: a reader must not mistake the gap for no changes.

        ``table``: its log is enabled now; empty: the database's own log.
        """
        t, own_log = self._db.t.binlog_log, logs[""]
        if (table and own_log.enabled) or not last_seq:  # the database's own log has the records, or there are none
            return
        enabled_now = [log for log in logs.values() if log.tbl == table or (not table and log.dropped_at is None)]
        incomplete = [log for log in enabled_now if last_seq > own_log.last_seq or log.skipped > log.floor]
        if incomplete:
            instance, name = own_log.instance, own_log.db
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
        """Let the next run cut what waits for approval, up to ``upto``, the last record that the operator was shown.

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
        t = self._db.t.binlog_log
        with deciding(self._db, instance) as c:
            now = self._db.now(c)
            ensure_log_rows(self._db, c, instance, name, table)
            logs = rows.read_logs(self._db, c, instance, name, lock=True)
            dropped = [log for log in logs.values() if log.dropped_at is None and (not table or log.tbl == table)]
            # Cut the dropped logs completely, and delete their consumers and the cuts of their partitions.
            values = {"dropped_at": now, "watermark": MAX_COMMIT_SEQ} | NOTHING_BLOCKED
            not_dropped = and_(scope_condition(t, instance, name, table), t.c.dropped_at.is_(None))
            c.execute(update(t).where(not_dropped).values(**values))
            for of_log in (self._db.t.binlog_consumer, self._db.t.binlog_partition_cut):
                c.execute(delete(of_log).where(scope_condition(of_log, instance, name, table)))
            if dropped:
                tables = tuple(sorted(log.tbl for log in dropped if log.tbl))
                last_seq = max(log.last_seq for log in dropped)
                tombstone = Tombstone(database=not table, db=name, tables=tables, seq=last_seq, dropped=True)
                self._journal.append(c, instance, Op.GC_BINLOG, gc_binlog([tombstone]))
        while True:  # grant all replicas everything; those whose backend has acknowledged have no row left
            with deciding(self._db, instance) as c:
                if drop_copies(self._db, c, instance, name, table, COPIES_AT_ONCE) < COPIES_AT_ONCE:
                    return count_copies(self._db, c, instance, name, table)


class BinlogSchedule:
    """The schedule of binlog GC of one deployment."""

    def __init__(self, db: Database, settings: BinlogSettings, controls: ControlStore) -> None:
        self._db, self._settings, self._controls = db, settings, controls

    def due(self) -> tuple[str, ...]:
        """Return the instances whose binlogs are due now. Called with each tick."""
        t, instance = self._db.t.binlog_round, self._db.t.instance
        with self._db.read() as c:
            now = self._db.now(c)
            interval_over = t.c.checked_at <= now - self._settings.interval_seconds * 1000
            in_future = t.c.checked_at > now  # the clock was ahead once
            due = or_(t.c.checked_at.is_(None), interval_over, in_future)
            instances = select(t.c.instance).join(instance, instance.c.id == t.c.instance)
            instances = instances.where(due, instance.c.mode == "enabled").order_by(t.c.instance)
            names = c.execute(instances).scalars().all()
            if not names:
                return ()
            halted = halt_by_instance(self._controls.all_in(c), now)
        return tuple(name for name in names if halted(name) is None)

    def begin_run(self, instance: str) -> str:
        """Begin a run over an instance's binlogs; return why it may cut nothing, empty if it may cut.

        Raises:
            NotEnabled, Halted: the controls of the instance forbid deletion, so no replica is given up and no entry of
                the journal is deleted either. ``due`` leaves such instances out, but others can order a run.
        """
        t = self._db.t.binlog_round
        of_instance = t.c.instance == instance
        with self._db.write() as c:
            self._controls.check_in(c, instance)
            row = c.execute(select(t).where(of_instance).with_for_update()).one_or_none()
            if row is None:
                return ""
            now = self._db.now(c)
            if row.refused and policy.is_retry(row.checked_at, now, self._settings):
                return str(row.refused)
            # Never refuse twice in a row: if runs are always far apart, one of them must cut.
            problem = "" if row.refused else policy.clock_problem(row.checked_at, now, self._settings)
            steady_since = now if problem else row.steady_since or now
            values = {
                "checked_at": now,
                "refused": problem,
                "refusals": t.c.refusals + int(bool(problem)),
                "steady_since": steady_since,
            }
            c.execute(update(t).where(of_instance).values(**values))
            record_work(self._db, c, "binlog gc", instance, problem)
        return problem

    def is_steady(self, instance: str) -> bool:
        """Tell whether runs had no break for the hold limit, so that a silent consumer is known to be silent."""
        with self._db.read() as c:
            return rows.steady_for(self._db, c, instance, self._settings.hold_limit_seconds)

    def finish_run(self, instance: str, cuts: int) -> None:
        """Record the end of a run that succeeded."""
        t = self._db.t.binlog_round
        with self._db.write() as c:
            values = {"ok_at": self._db.now(c), "cuts": t.c.cuts + cuts}
            c.execute(update(t).where(t.c.instance == instance).values(**values))

    def logs_to_cut(self, instance: str) -> Mapping[str, Sequence[str]]:
        """Return the logs with expired records, and those with a recorded blocker: database → tables.

        For a database whose own log is enabled it is that log alone, the empty name.
        """
        t = self._db.t.binlog_log
        log, own_log = t.alias("log"), t.alias("own")
        own_of_log = and_(own_log.c.instance == log.c.instance, own_log.c.db == log.c.db, own_log.c.tbl == "")
        cut_by_itself = and_(log.c.instance == instance, or_(log.c.tbl == "", own_log.c.enabled.is_(False)))
        not_dropped = and_(log.c.dropped_at.is_(None), own_log.c.dropped_at.is_(None))
        # What is left of a disabled log expires by the TTL of its database.
        leftover_ttl = func.coalesce(log.c.ttl_seconds, own_log.c.ttl_seconds, self._settings.hold_limit_seconds)
        ttl_seconds = case((log.c.enabled, log.c.ttl_seconds), else_=leftover_ttl)
        records, size = log.c.records - log.c.gone_records, log.c.bytes - log.c.gone_bytes
        too_much = and_(log.c.enabled, or_(records > log.c.max_history_nums, size > log.c.max_bytes))
        has_blocker = or_(log.c.held_since.is_not(None), log.c.awaiting_seq.is_not(None))
        with self._db.read() as c:
            expired = self._first_timestamp(log) <= self._db.now(c) - ttl_seconds * 1000
            due = select(log.c.db, log.c.tbl).join_from(log, own_log, own_of_log)
            due = due.where(cut_by_itself, not_dropped, or_(expired, too_much, has_blocker))
            logs: dict[str, list[str]] = {}
            for row in c.execute(due.order_by(log.c.db, log.c.tbl)):
                logs.setdefault(row.db, []).append(row.tbl)
            return logs

    def _first_timestamp(self, log: Any) -> ColumnElement[int]:
        """Return the timestamp of the first record of a log that is not cut, NULL if there is none."""
        b, position = self._db.t.binlog, self._db.t.binlog_table_record
        of_database = and_(b.c.instance == log.c.instance, b.c.db == log.c.db)
        in_database = select(b.c.ts).where(of_database, b.c.seq > log.c.watermark).order_by(b.c.seq).limit(1)
        of_table = and_(position.c.instance == log.c.instance, position.c.db == log.c.db, position.c.tbl == log.c.tbl)
        left = select(position.c.seq).where(of_table, position.c.seq > log.c.watermark)
        first = left.order_by(position.c.seq).limit(1).correlate(log).scalar_subquery()
        in_table = select(b.c.ts).where(of_database, b.c.seq == first)
        return case((log.c.tbl == "", in_database.scalar_subquery()), else_=in_table.scalar_subquery())
