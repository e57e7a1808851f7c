"""Check ids before they reach a statement, create the rows of logs, and tell whether a log is dropped."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.kernel.errors import WrongUsage

MAX_NAME_CHARACTERS = 128
LogKey = tuple[str, str]
"""(database, table); the table is empty for the database's own log."""


def check_names(name: str, *others: str) -> None:
    """Check one name that is required, and others that may be empty.

    Raises:
        BadInput: a name is not printable or longer than 128 characters, or the required one is empty.
    """
    check_text(name, *others)
    for text in (name, *others):
        if len(text) > MAX_NAME_CHARACTERS or not text.isprintable():
            raise WrongUsage(f"{text[:40]!r} is not an id: use up to {MAX_NAME_CHARACTERS} printable characters")
    if not name:
        raise WrongUsage("a required name is empty: give the id of the database, consumer, backend or tablet")


def log_condition(t: Any, instance: str, key: LogKey) -> ColumnElement[bool]:
    """Return the condition that a row of ``t`` belongs to one log."""
    database, table = key
    return and_(t.c.instance == instance, t.c.db == database, t.c.tbl == table)


def scope_condition(t: Any, instance: str, name: str, table: str) -> ColumnElement[bool]:
    """Return the condition that a row of ``t`` belongs to a database (empty: any) and a table of it (empty: any)."""
    database = [t.c.db == name] if name else []
    return and_(t.c.instance == instance, *database, *([t.c.tbl == table] if table else []))


def ensure_log_rows(db: Database, c: Connection, instance: str, name: str, table: str = "") -> None:
    """Create the row of a database's own log, and of a table's log, where they do not exist yet."""
    t, state = db.t.binlog_log, db.t.binlog_round
    c.execute(upsert(t).values(instance=instance, db=name, tbl="").on_conflict_do_nothing())
    if table:
        # No log has a record yet of a table that was never named.
        floor = case((t.c.watermark > t.c.starts_after, t.c.watermark), else_=t.c.starts_after)
        begins = select(case((t.c.enabled, floor), else_=t.c.last_seq)).where(log_condition(t, instance, (name, "")))
        table_row = upsert(t).values(instance=instance, db=name, tbl=table, starts_after=begins.scalar_subquery())
        c.execute(table_row.on_conflict_do_nothing())
    c.execute(upsert(state).values(instance=instance).on_conflict_do_nothing())


def is_dropped(db: Database, c: Connection, instance: str, name: str, table: str) -> bool:
    """Tell whether a table, or the database that contains it, is dropped."""
    t = db.t.binlog_log
    logs = and_(t.c.instance == instance, t.c.db == name, t.c.tbl.in_(("", table)))
    dropped = select(t.c.tbl).where(logs, t.c.dropped_at.is_not(None)).limit(1)
    return c.execute(dropped).first() is not None
