"""What a cut of a log would do now and because of whom no more, as people are told it. Nothing is cut."""

from itertools import islice

from sqlalchemy import Connection

from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.operators.controls.port import Halted, NotEnabled
from sexton.replication.binlog import policy
from sexton.replication.binlog.binlogs import BinlogService
from sexton.replication.binlog.errors import UnknownLog
from sexton.replication.binlog.model import Consumer, Cut, Log
from sexton.replication.binlog.sql import rows
from sexton.replication.binlog.sql.cutting import CutPreview, Cutter
from sexton.replication.binlog.sql.figures import LastLook, last_look
from sexton.replication.replicas.model import BackendStanding, Replica, RetainingReplica
from sexton.replication.replicas.policy import unwell
from sexton.replication.replicas.sql import figures

MOST_LINES = 100
NAMED = 5


class LogCutPreview(Message):
    """A log, and what a cut would do to it. Counted in records."""

    log: Log
    cut: Cut
    expired: int = 0
    """So many its configuration lets go,"""
    goes: int = 0
    """and so many of them would go now."""
    waits: int = 0
    """With an approval so many may go: up to ``cut.wants``, or what the last look found to be too much."""


class RetainingCopy(Message):
    """A copy for which others keep something; ``why`` in words."""

    replica: Replica
    why: str


class LogExplanation(Message):
    """A database's log or those of its tables, and everybody who has to do with their end. Instants in ms."""

    instance: str
    db: str
    tbl: str = ""
    own: Log
    """The database's."""
    dropped_at: int | None = None
    """Since when there is nothing to cut: what is there goes."""
    lines: tuple[LogCutPreview, ...] = ()
    logs: int = 0
    """So many there are; ``lines`` has the first hundred."""
    halted: str = ""
    """Why nothing of the instance may go now: it observes, a stop, a list, a window."""
    clock: str = ""
    """Why the next look cuts nothing."""
    look: LastLook = LastLook()
    consumers: tuple[Consumer, ...] = ()
    """Who reads them; those that hold nothing any more, too."""
    lost_after_seconds: int = 0
    backends: tuple[BackendStanding, ...] = ()
    """Those whose copies of the tables have something to let go."""
    holders: tuple[RetainingReplica, ...] = ()
    """For whose copies others keep something, by backend,"""
    named: tuple[RetainingCopy, ...] = ()
    """and a few of these."""
    now: int = 0


def explain(db: Database, binlogs: BinlogService, instance: str, name: str, table: str = "") -> LogExplanation:
    """Decide as a cut would, and say why. Raises ``UnknownLog``."""
    with db.snapshot() as c:
        now, found = db.now(c), rows.logs(db, c, instance, name)
        own, its = found.get(""), found.get(table)
        if own is None or its is None:
            raise UnknownLog(f"{name}/{table}" if table else name)
        looked = list(islice(binlogs.cutter.look(c, instance, name, table), MOST_LINES))
        cut = [o for o in found.values() if o.dropped_at is None and bool(o.tbl) is not own.enabled]
        look = last_look(db, c, instance)
        halted = ""
        try:
            binlogs.controls.check_in(c, instance)
        except (Halted, NotEnabled) as e:
            halted = str(e)
        readers = [r for r in rows.consumers(db, c, instance, name) if own.enabled or table in ("", r.tbl)]
        of = (db, c, instance, name, table)
        return LogExplanation(
            instance=instance,
            db=name,
            tbl=table,
            own=own,
            dropped_at=its.dropped_at if its.dropped_at is not None else own.dropped_at,
            lines=tuple(_line(c, binlogs.cutter, its) for its in looked),
            logs=len(looked) if table else len(cut),
            halted=halted,
            clock=policy.clock(look.looked_at, now, binlogs.terms),
            look=look,
            consumers=tuple(readers),
            lost_after_seconds=binlogs.terms.hold_limit_seconds,
            backends=tuple(b for b in figures.standings(*of) if b.behind),
            holders=tuple(figures.holders(*of)),
            named=tuple(RetainingCopy(replica=r, why=_lacks(r, now)) for r in figures.holding(*of, limit=NAMED)),
            now=now,
        )


def _line(c: Connection, cutter: Cutter, its: CutPreview) -> LogCutPreview:
    cut, log = its.cut, its.log
    goes = cutter.within(c, log, cut.seq) if cut.seq > log.watermark else 0
    wants = cut.wants if log.wants is None else log.wants
    waits = 0 if wants is None else cutter.within(c, log, wants)
    return LogCutPreview(log=log, cut=cut, expired=its.expired.goes if its.expired else 0, goes=goes, waits=waits)


def _lacks(its: Replica, now: int) -> str:
    return unwell(its, now) or f"needs version {its.needs} and above"
