"""Transactions of the owner, and the statements that a database receives, transaction by transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event, text

from sexton.database.engine import Database
from sexton.operators.registry.store import Registry

VIEW = "public.sexton_live"
UNNAMED = text(
    "SELECT id FROM sexton.instance WHERE live_view = '' AND owner = 'sql' "
    "AND to_regclass('public.sexton_live') IS NOT NULL"
)
"""The instances that do not name the owner's view."""


@contextmanager
def recorded_transactions(db: Database) -> Iterator[list[list[str]]]:
    """Record the statements of each transaction of this thread, but for BEGIN and SET."""
    transactions: list[list[str]] = []

    def begin(_connection: Any) -> None:
        transactions.append([])

    def execute(_c: Any, _cursor: Any, statement: str, _parameters: Any, _context: Any, _many: Any) -> None:
        if not statement.startswith(("BEGIN", "SET")):
            transactions[-1].append(statement)

    event.listen(db.engine, "begin", begin, insert=True)
    event.listen(db.engine, "before_cursor_execute", execute)
    try:
        yield transactions
    finally:
        event.remove(db.engine, "begin", begin)
        event.remove(db.engine, "before_cursor_execute", execute)


@contextmanager
def owner_write(db: Database) -> Iterator[Connection]:
    """Open a transaction in which names without a schema are the owner's: Sexton's own find nothing in ``public``.

    At its end every instance that names no live view names ``sexton_live``, if it exists, as an operator would do.
    """
    with db.write() as c:
        c.exec_driver_sql("SET LOCAL search_path = public")
        yield c
        unnamed = c.execute(UNNAMED).scalars().all()
    for instance in unnamed:
        Registry(db).set_live_view(instance, VIEW)
