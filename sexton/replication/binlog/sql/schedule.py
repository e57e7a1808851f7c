"""Whose binlogs are to be looked at now, and of which databases something may go: a statement each."""

from collections.abc import Mapping, Sequence

from sqlalchemy import and_, case, func, or_, select, update

from sexton.database.engine import Database
from sexton.operators.controls.policy import halts
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.binlog.sql import rows


class BinlogSchedule:
    """Turns."""

    def __init__(self, db: Database, terms: BinlogSettings, controls: ControlStore) -> None:
        self._db, self._terms, self._controls = db, terms, controls

    def due(self) -> tuple[str, ...]:
        """Return the instances whose binlogs are to be looked at now: asked with each tick."""
        t, instance = self._db.t.binlog_round, self._db.t.instance
        with self._db.read() as c:
            now = self._db.now(c)
            over = or_(t.c.looked_at.is_(None), t.c.looked_at <= now - self._terms.interval_seconds * 1000)
            over = or_(over, t.c.looked_at > now)  # the clock was ahead once
            asked = select(t.c.instance).join(instance, instance.c.id == t.c.instance)
            names = c.execute(asked.where(over, instance.c.mode == "enabled").order_by(t.c.instance)).scalars().all()
            if not names:
                return ()
            halted = halts(self._controls.all_in(c), now)
        return tuple(name for name in names if halted(name) is None)

    def look(self, instance: str) -> str:
        """Begin a look at an instance's binlogs; return why nothing may be cut in it, empty where it may."""
        t = self._db.t.binlog_round
        mine = t.c.instance == instance
        with self._db.write() as c:
            row = c.execute(select(t).where(mine).with_for_update()).one_or_none()
            if row is None:
                return ""
            now = self._db.now(c)
            if row.refused and policy.soon(row.looked_at, now, self._terms):
                return str(row.refused)
            # Never twice in a row: where looks are always far apart, something must go at last.
            why = "" if row.refused else policy.clock(row.looked_at, now, self._terms)
            since = now if why else row.steady_since or now
            values = {"refused": why, "refusals": t.c.refusals + int(bool(why)), "steady_since": since}
            c.execute(update(t).where(mine).values(looked_at=now, **values))
        return why

    def patient(self, instance: str) -> bool:
        """Tell whether who has been silent for the hold limit may be taken to be gone: it was looked all that time."""
        with self._db.read() as c:
            return rows.patient(self._db, c, instance, self._terms.hold_limit_seconds)

    def looked(self, instance: str, cuts: int) -> None:
        """End a look that went well."""
        t = self._db.t.binlog_round
        with self._db.write() as c:
            values = {"ok_at": self._db.now(c), "cuts": t.c.cuts + cuts}
            c.execute(update(t).where(t.c.instance == instance).values(**values))

    def logs(self, instance: str) -> Mapping[str, Sequence[str]]:
        """Return the logs of which records have expired, or of which something was said: database → tables.

        Of a database whose own log is enabled it is that one, the empty name.
        """
        t, b, of = self._db.t.binlog_log, self._db.t.binlog, self._db.t.binlog_of
        log, own = t.alias("log"), t.alias("own")
        its = and_(b.c.instance == log.c.instance, b.c.db == log.c.db)
        whole = select(b.c.ts).where(its, b.c.seq > log.c.watermark).order_by(b.c.seq).limit(1).scalar_subquery()
        mine = and_(of.c.instance == log.c.instance, of.c.db == log.c.db, of.c.tbl == log.c.tbl)
        record = and_(its, b.c.seq == of.c.seq)
        part = select(b.c.ts).join_from(of, b, record).where(mine, of.c.seq > log.c.watermark).order_by(of.c.seq)
        first = case((log.c.tbl == "", whole), else_=part.limit(1).scalar_subquery())
        # What is left of the log of a table that has none any more lives by its database's rule.
        left = func.coalesce(log.c.ttl_seconds, own.c.ttl_seconds, self._terms.hold_limit_seconds)
        ttl = case((log.c.enabled, log.c.ttl_seconds), else_=left)
        kept, size = log.c.records - log.c.gone_records, log.c.bytes - log.c.gone_bytes
        much = and_(log.c.enabled, or_(kept > log.c.max_history_nums, size > log.c.max_bytes))
        said = or_(log.c.held_since.is_not(None), log.c.wants.is_not(None))
        asked = and_(log.c.instance == instance, or_(log.c.tbl == "", own.c.enabled.is_(False)))
        of_it = and_(own.c.instance == log.c.instance, own.c.db == log.c.db, own.c.tbl == "")
        standing = and_(log.c.dropped_at.is_(None), own.c.dropped_at.is_(None))
        with self._db.read() as c:
            old = first <= self._db.now(c) - ttl * 1000
            due = select(log.c.db, log.c.tbl).join_from(log, own, of_it).where(asked, standing, or_(old, much, said))
            found: dict[str, list[str]] = {}
            for row in c.execute(due.order_by(log.c.db, log.c.tbl)):
                found.setdefault(row.db, []).append(row.tbl)
            return found
