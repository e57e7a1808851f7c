"""Between rows and values, and the one way to ask for logs."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from sexton.binlog.errors import UnknownLog
from sexton.binlog.model import Consumer, Log
from sexton.db.engine import Database

Key = tuple[str, str]
"""(database, table or empty)."""


def log(row: Any) -> Log:
    """Return the row as a value."""
    return Log(**row._mapping)


def logs(db: Database, c: Connection, instance: str, name: str, *, lock: bool = False) -> dict[str, Log]:
    """Return the logs of a database, its own and those of its tables, by table.

    ``lock``: nobody stores records in them until the transaction ends. Who locks rows of logs does so in this order.
    """
    t = db.t.binlog_log
    asked = select(t).where(t.c.instance == instance, t.c.db == name).order_by(t.c.tbl)
    return {r.tbl: log(r) for r in c.execute(asked.with_for_update() if lock else asked)}


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


def any_of(t: Any, instance: str, keys: Iterable[Key]) -> ColumnElement[bool]:
    """Return the condition that a row is of one of a few logs."""
    return and_(t.c.instance == instance, or_(*(and_(t.c.db == d, t.c.tbl == b) for d, b in keys)))


def consumers(db: Database, c: Connection, instance: str, name: str) -> list[Consumer]:
    """Return who reads a database or its tables, in the order of their names; those that are LOST too."""
    t = db.t.binlog_consumer
    asked = select(t).where(t.c.instance == instance, t.c.db == name).order_by(t.c.name, t.c.tbl)
    return [Consumer(**r._mapping) for r in c.execute(asked)]
