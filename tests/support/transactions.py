"""The statements that a database receives, transaction by transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from sexton.database.engine import Database


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
