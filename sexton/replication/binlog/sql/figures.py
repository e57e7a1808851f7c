"""Count logs, records and consumers, and list the logs that need an operator, by a few statements in all."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, distinct, func, or_, select

from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.replication.binlog.model import Log
from sexton.replication.binlog.sql import rows

MAX_NOTED_LOGS = 1_000


class LogCounts(Message):
    """Counts over all logs. ``databases``: those that have or had a log; ``logs``: those that are cut by themselves."""

    databases: int = 0
    logs: int = 0
    records: int = 0
    bytes: int = 0
    held: int = 0
    waiting: int = 0
    """Logs whose cut waits for approval."""
    consumers: int = 0
    lost: int = 0
    """The consumers that are LOST."""
    behind: int = 0
    """Backends with replicas that have binlogs to delete."""
    refused: int = 0
    """Instances whose last run cut nothing because of the clock."""


class LastRun(Message):
    """The last run over an instance's binlogs; ``refused``: why it cut nothing."""

    checked_at: int | None = None
    ok_at: int | None = None
    refused: str = ""


def count_logs(db: Database, c: Connection, instance: str | None = None) -> LogCounts:
    """Return the counts of an instance, or of all."""
    t, reader, replica, state = db.t.binlog_log, db.t.binlog_consumer, db.t.replica, db.t.binlog_round

    def in_scope(table: Any) -> list[ColumnElement[bool]]:
        return [] if instance is None else [table.c.instance == instance]

    records = func.coalesce(func.sum(t.c.records - t.c.gone_records), 0).label("records")
    size = func.coalesce(func.sum(t.c.bytes - t.c.gone_bytes), 0).label("bytes")
    held = _count_if(t.c.held_since.is_not(None)).label("held")
    waiting = _count_if(t.c.awaiting_seq.is_not(None)).label("waiting")
    logs = _select_from_cut_logs(db, func.count().label("logs"), records, size, held, waiting)
    log_counts = c.execute(logs.where(t.c.enabled, *in_scope(t))).one()
    lost = _count_if(reader.c.lost_at.is_not(None)).label("lost")
    consumer_counts = c.execute(select(func.count().label("consumers"), lost).where(*in_scope(reader))).one()
    backends = select(func.count(distinct(replica.c.instance + "/" + replica.c.backend)))
    behind = backends.where(replica.c.desired > replica.c.acked, *in_scope(replica))
    refused = select(func.count()).select_from(state).where(state.c.refused != "", *in_scope(state))
    databases = select(func.count()).select_from(t).where(t.c.tbl == "", *in_scope(t))
    return LogCounts(
        databases=c.execute(databases).scalar_one(),
        **{name: int(number) for name, number in log_counts._mapping.items()},
        **consumer_counts._mapping,
        behind=c.execute(behind).scalar_one(),
        refused=c.execute(refused).scalar_one(),
    )


def logs_with_blocker(db: Database, c: Connection, instance: str) -> Sequence[Log]:
    """Return the logs whose cut a consumer blocks or waits for approval, as of the last run; a thousand at most."""
    t = db.t.binlog_log
    has_blocker = or_(t.c.held_since.is_not(None), t.c.awaiting_seq.is_not(None))
    logs = _select_from_cut_logs(db, t).where(t.c.instance == instance, has_blocker)
    first_logs = logs.order_by(t.c.db, t.c.tbl).limit(MAX_NOTED_LOGS)
    return [rows.to_log(row) for row in c.execute(first_logs)]


def find_last_run(db: Database, c: Connection, instance: str) -> LastRun:
    """Return the result of the last run over an instance's binlogs."""
    t = db.t.binlog_round
    query = select(t.c.checked_at, t.c.ok_at, t.c.refused).where(t.c.instance == instance)
    row = c.execute(query).one_or_none()
    return LastRun() if row is None else LastRun(**row._mapping)


def _select_from_cut_logs(db: Database, *columns: Any) -> Select[Any]:
    """Select from logs that are cut by themselves: enabled logs of databases, else those of their tables."""
    t = db.t.binlog_log
    own_log = t.alias("own")
    own_of_log = and_(own_log.c.instance == t.c.instance, own_log.c.db == t.c.db, own_log.c.tbl == "")
    cut_by_itself = or_(and_(t.c.tbl == "", t.c.enabled), and_(t.c.tbl != "", own_log.c.enabled.is_(False)))
    not_dropped = and_(t.c.dropped_at.is_(None), own_log.c.dropped_at.is_(None))
    return select(*columns).select_from(t.join(own_log, own_of_log)).where(not_dropped, cut_by_itself)


def _count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)
