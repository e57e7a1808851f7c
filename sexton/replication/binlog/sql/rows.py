"""Read logs and consumers from their rows, count them by one statement, and list logs that need an operator."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, distinct, func, or_, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import in_list
from sexton.kernel.errors import GuardBusy
from sexton.replication.binlog.model import Consumer, LastRun, Log, LogCounts
from sexton.replication.errors import UnknownLog
from sexton.replication.log_rows import log_condition


def read_logs(
    db: Database, c: Connection, instance: str, name: str, tables: Iterable[str] | None = None, *, lock: bool = False
) -> dict[str, Log]:
    """Return logs of a database by table: its own log (key ``""``) and those of some tables; None: of all.

    ``lock``: lock the row of the database's own log without waiting, so that no records of the database are stored
    until the transaction ends.

    Raises:
        GuardBusy: records of the database are being stored.
    """
    t = db.t.binlog_log
    if lock:
        own_row = select(t.c.db).where(log_condition(t, instance, (name, ""))).with_for_update(nowait=True)
        try:
            c.execute(own_row)
        except OperationalError as e:
            if not is_locked(e):
                raise
            raise GuardBusy(f"records of {name} are being stored at the moment; try again") from e
    condition = and_(t.c.instance == instance, t.c.db == name)
    if tables is not None:
        condition = and_(condition, in_list(t.c.tbl, {"", *tables}))
    return {row.tbl: Log(**row._mapping) for row in c.execute(select(t).where(condition).order_by(t.c.tbl))}


def lock_own_log(db: Database, c: Connection, instance: str, name: str) -> Log:
    """Return a database's own log, locked until the transaction ends; its row must exist."""
    t = db.t.binlog_log
    own_row = select(t).where(log_condition(t, instance, (name, ""))).with_for_update()
    return Log(**c.execute(own_row).one()._mapping)


def steady_for(db: Database, c: Connection, instance: str, seconds: int) -> bool:
    """Tell whether runs have had no break for so long: only then is a consumer without a sign of life really silent."""
    t = db.t.binlog_round
    since = c.execute(select(t.c.steady_since).where(t.c.instance == instance)).scalar_one_or_none()
    return since is not None and since <= db.now(c) - seconds * 1000


def readable_log(logs: dict[str, Log], name: str, table: str) -> Log:
    """Return the log of a table, or of the database if ``table`` is empty, out of ``logs`` by table.

    Raises:
        UnknownLog: it is not enabled, or is dropped. A table's log can also be read if its database's log is enabled.
    """
    own_log, log = logs.get(""), logs.get(table)
    if own_log is not None and own_log.dropped_at is not None:
        raise UnknownLog(log_name(name, table))
    own_enabled = own_log is not None and own_log.enabled
    if log is None or log.dropped_at is not None or not (log.enabled or own_enabled):
        raise UnknownLog(log_name(name, table))
    return log


def log_name(name: str, table: str) -> str:
    """Return the displayed name of a log: ``DB``, or ``DB/TABLE``."""
    return f"{name}/{table}" if table else name


def read_consumers(db: Database, c: Connection, instance: str, name: str) -> list[Consumer]:
    """Return the consumers of a database and its tables by name, including those that are LOST."""
    t = db.t.binlog_consumer
    consumers = select(t).where(t.c.instance == instance, t.c.db == name).order_by(t.c.name, t.c.tbl)
    return [Consumer(**row._mapping) for row in c.execute(consumers)]


MAX_NOTED_LOGS = 1_000


def count_logs(db: Database, c: Connection, instance: str | None = None) -> LogCounts:
    """Return the counts of an instance, or of all."""
    t, reader, replica, state = db.t.binlog_log, db.t.binlog_consumer, db.t.replica, db.t.binlog_round

    def in_scope(table: Any) -> list[ColumnElement[bool]]:
        return [] if instance is None else [table.c.instance == instance]

    def count(table: Any, name: str, *conditions: ColumnElement[bool]) -> ColumnElement[int]:
        counted = select(func.count()).select_from(table).where(*conditions, *in_scope(table))
        return counted.scalar_subquery().label(name)

    other_log = t.alias("log")
    backends = select(func.count(distinct(replica.c.instance + "/" + replica.c.backend)))
    behind = backends.where(replica.c.desired > replica.c.acked, *in_scope(replica))
    logs = _select_from_cut_logs(
        db,
        func.count().label("logs"),
        func.coalesce(func.sum(t.c.records - t.c.gone_records), 0).label("records"),
        func.coalesce(func.sum(t.c.bytes - t.c.gone_bytes), 0).label("bytes"),
        func.count(t.c.held_since).label("held"),
        func.count(t.c.awaiting_seq).label("waiting"),
        count(reader, "consumers"),
        count(reader, "lost", reader.c.lost_at.is_not(None)),
        behind.scalar_subquery().label("behind"),
        count(state, "refused", state.c.refused != ""),
        count(other_log, "databases", other_log.c.tbl == ""),
    )
    row = c.execute(logs.where(t.c.enabled, *in_scope(t))).one()
    return LogCounts(**{name: int(number) for name, number in row._mapping.items()})


def logs_with_blocker(db: Database, c: Connection, instance: str) -> Sequence[Log]:
    """Return the logs whose cut a consumer blocks or waits for approval, as of the last run; a thousand at most."""
    t = db.t.binlog_log
    has_blocker = or_(t.c.held_since.is_not(None), t.c.awaiting_seq.is_not(None))
    logs = _select_from_cut_logs(db, t).where(t.c.instance == instance, has_blocker)
    first_logs = logs.order_by(t.c.db, t.c.tbl).limit(MAX_NOTED_LOGS)
    return [Log(**row._mapping) for row in c.execute(first_logs)]


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
