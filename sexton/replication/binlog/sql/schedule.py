"""Find the instances whose binlogs are due, and the logs with expired records; record the state of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update

from sexton.database.engine import Database
from sexton.operators.call_log.store import record_work
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.binlog.sql import rows


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
