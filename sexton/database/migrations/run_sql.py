"""Execute one revision's SQL file, statement by statement, inside the migration's transaction."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from alembic import op


def run_sql(revision: str) -> None:
    """Run ``versions/REVISION.DIALECT.sql``, or print it in offline mode."""
    context = op.get_context()
    dialect = context.dialect.name
    sql = (Path(__file__).parent / "versions" / f"{revision}.{dialect}.sql").read_text("utf-8")
    if context.as_sql:
        context.impl.static_output(sql)
        return
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    for statement in [sql] if dialect == "postgresql" else _statements(sql):
        driver.execute(statement)


def _statements(sql: str) -> Iterator[str]:
    """Yield the statements of SQLite's SQL; ``executescript`` would first commit the open transaction."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
