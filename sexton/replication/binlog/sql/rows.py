"""Read logs and consumers from their rows."""

from collections.abc import Iterable

from sqlalchemy import Connection, and_, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import in_list
from sexton.kernel.errors import GuardBusy
from sexton.replication.binlog.model import Consumer, Log
from sexton.replication.errors import UnknownLog
from sexton.replication.sql.log_rows import log_condition


def read_logs(
    db: Database, c: Connection, instance: str, name: str, tables: Iterable[str] | None = None, *, lock: bool = False
) -> dict[str, Log]:
    """Return logs of a database by table: its own log (key ``""``) and those of some tables.

    Args:
        db: the database of Sexton.
        c: a transaction.
        instance: the instance of the logs.
        name: the database of the logs.
        tables: the tables; None: all.
        lock: lock the row of the database's own log without waiting, so that no records of the database are stored
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
