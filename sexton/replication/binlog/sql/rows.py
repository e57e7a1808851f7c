"""Between rows and values, and the one way to ask for logs."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import LOCK_NOT_AVAILABLE, Database
from sexton.database.rows import in_list
from sexton.kernel.errors import GuardBusy
from sexton.replication.binlog.errors import UnknownLog
from sexton.replication.binlog.model import Consumer, Log

Key = tuple[str, str]
"""(database, table or empty)."""


def log(row: Any) -> Log:
    """Return the row as a value."""
    return Log(**row._mapping)


def logs(
    db: Database, c: Connection, instance: str, name: str, tables: Iterable[str] | None = None, *, lock: bool = False
) -> dict[str, Log]:
    """Return logs of a database by table: its own and those of some tables, or all.

    ``lock``: nobody stores records in the database until the transaction ends: its own row is locked, at once or not.

    Raises:
        GuardBusy: somebody stores records this moment.
    """
    t = db.t.binlog_log
    if lock:
        asked = select(t.c.db).where(one(t, instance, (name, ""))).with_for_update(nowait=True)
        try:
            c.execute(asked)
        except OperationalError as e:
            if getattr(e.orig, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise
            raise GuardBusy(f"records of {name} are being stored this moment; try again") from e
    its = and_(t.c.instance == instance, t.c.db == name)
    if tables is not None:
        its = and_(its, in_list(db, t.c.tbl, {"", *tables}))
    return {r.tbl: log(r) for r in c.execute(select(t).where(its).order_by(t.c.tbl))}


def patient(db: Database, c: Connection, instance: str, seconds: int) -> bool:
    """Tell whether it was looked for so long without a break that who was silent meanwhile is silent indeed."""
    t = db.t.binlog_round
    since = c.execute(select(t.c.steady_since).where(t.c.instance == instance)).scalar_one_or_none()
    return since is not None and since <= db.now(c) - seconds * 1000


def standing(found: dict[str, Log], db: str, tbl: str) -> Log:
    """Return the log that somebody means.

    Raises:
        UnknownLog: it is not kept, or was dropped. The log of a table is also kept where its database's is.
    """
    own, its = found.get(""), found.get(tbl)
    whole = own is not None and own.enabled and own.dropped_at is None
    if own is not None and own.dropped_at is not None:
        raise UnknownLog(f"{db}/{tbl}" if tbl else db)
    if its is None or its.dropped_at is not None or not (its.enabled or whole):
        raise UnknownLog(f"{db}/{tbl}" if tbl else db)
    return its


def one(t: Any, instance: str, key: Key) -> ColumnElement[bool]:
    """Return the condition that a row is that log's."""
    return and_(t.c.instance == instance, t.c.db == key[0], t.c.tbl == key[1])


def consumers(db: Database, c: Connection, instance: str, name: str) -> list[Consumer]:
    """Return who reads a database or its tables, in the order of their names; those that are LOST too."""
    t = db.t.binlog_consumer
    asked = select(t).where(t.c.instance == instance, t.c.db == name).order_by(t.c.name, t.c.tbl)
    return [Consumer(**r._mapping) for r in c.execute(asked)]
