"""Binlogs in numbers, and the logs of which somebody should know something: a few statements for any number of them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, distinct, func, or_, select

from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.replication.binlog.model import Log
from sexton.replication.binlog.sql import rows

MOST_NOTED = 1_000


class LogCounts(Message):
    """All logs that are kept now. ``databases``: those that have any, or had."""

    databases: int = 0
    logs: int = 0
    records: int = 0
    bytes: int = 0
    held: int = 0
    waiting: int = 0
    """Logs whose cut waits for approval."""
    consumers: int = 0
    lost: int = 0
    """Of the consumers: so many are LOST."""
    behind: int = 0
    """Backends of which copies have something to let go."""
    refused: int = 0
    """Instances of which nothing was cut at the last look, for its clock."""


class LastLook(Message):
    """When binlogs of an instance were looked at last; ``refused``: why nothing was cut then."""

    looked_at: int | None = None
    ok_at: int | None = None
    refused: str = ""


def tally(db: Database, c: Connection, instance: str | None = None) -> LogCounts:
    """Return the numbers of an instance, or of all."""
    t, reader, replica, look = db.t.binlog_log, db.t.binlog_consumer, db.t.replica, db.t.binlog_round

    def of(table: Any) -> list[ColumnElement[bool]]:
        return [] if instance is None else [table.c.instance == instance]

    noted = {"held": t.c.held_since.is_not(None), "waiting": t.c.wants.is_not(None)}
    sums = [func.coalesce(func.sum(case((what, 1), else_=0)), 0).label(name) for name, what in noted.items()]
    kept = func.coalesce(func.sum(t.c.records - t.c.gone_records), 0).label("records")
    size = func.coalesce(func.sum(t.c.bytes - t.c.gone_bytes), 0).label("bytes")
    logs = c.execute(_kept(db, func.count().label("logs"), kept, size, *sums).where(t.c.enabled, *of(t))).one()
    lost = func.coalesce(func.sum(case((reader.c.lost_at.is_not(None), 1), else_=0)), 0).label("lost")
    readers = c.execute(select(func.count().label("consumers"), lost).where(*of(reader))).one()
    due = select(func.count(distinct(replica.c.instance + "/" + replica.c.backend)))
    refused = select(func.count()).select_from(look).where(look.c.refused != "", *of(look))
    own = select(func.count()).select_from(t).where(t.c.tbl == "", *of(t))
    return LogCounts(
        databases=c.execute(own).scalar_one(),
        **{name: int(n) for name, n in logs._mapping.items()},
        **readers._mapping,
        behind=c.execute(due.where(replica.c.desired > replica.c.acked, *of(replica))).scalar_one(),
        refused=c.execute(refused).scalar_one(),
    )


def noted(db: Database, c: Connection, instance: str) -> Sequence[Log]:
    """Return the logs that are held, or whose cut waits for approval, as of the last look; a thousand at most."""
    t = db.t.binlog_log
    said = or_(t.c.held_since.is_not(None), t.c.wants.is_not(None))
    asked = _kept(db, t).where(t.c.instance == instance, said).order_by(t.c.db, t.c.tbl).limit(MOST_NOTED)
    return [rows.log(row) for row in c.execute(asked)]


def last_look(db: Database, c: Connection, instance: str) -> LastLook:
    """Return what came of the last look at an instance's binlogs."""
    t = db.t.binlog_round
    asked = select(t.c.looked_at, t.c.ok_at, t.c.refused).where(t.c.instance == instance)
    row = c.execute(asked).one_or_none()
    return LastLook() if row is None else LastLook(**row._mapping)


def _kept(db: Database, *columns: Any) -> Select[Any]:
    """Select from logs that are cut by themselves: databases', and tables' whose database has none."""
    t = db.t.binlog_log
    own = t.alias("own")
    its = and_(own.c.instance == t.c.instance, own.c.db == t.c.db, own.c.tbl == "")
    cut = or_(and_(t.c.tbl == "", t.c.enabled), and_(t.c.tbl != "", own.c.enabled.is_(False)))
    return (
        select(*columns).select_from(t.join(own, its)).where(t.c.dropped_at.is_(None), own.c.dropped_at.is_(None), cut)
    )
