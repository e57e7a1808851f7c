"""minidb's metadata: three tables, and the view in which it shows Sexton what is live.

The tables lie beside Sexton's in one database. A commit over two databases is not atomic, and atomic is the point.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
)

from sexton import contract

metadata = MetaData()

table = Table(
    "minidb_table",
    metadata,
    Column("id", Text, primary_key=True),  # a uuid: numbers come back after a restore, and keys must never be reused
    Column("instance", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("dropped", Boolean, nullable=False),
    UniqueConstraint("instance", "name"),
)

rowset = Table(
    "minidb_rowset",
    metadata,
    Column("id", Text, primary_key=True),  # also the id of its marks
    Column("table_id", ForeignKey(table.c.id), nullable=False, index=True),
    Column("vault", Text, nullable=False),
    Column("first_version", BigInteger, nullable=False),
    Column("last_version", BigInteger, nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

# Sexton asks for keys and for what lies under a prefix, in byte order: with this primary key both are index look-ups.
_KEY = Text().with_variant(Text(collation="C"), "postgresql")
file = Table(
    "minidb_file",
    metadata,
    Column("key", _KEY, primary_key=True),
    Column("rowset_id", ForeignKey(rowset.c.id, ondelete="CASCADE"), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Index("minidb_file_of_rowset", "rowset_id"),
)

# What Sexton must never delete. Before each claim it asks this view, so that a mistake of ours (a mark for a file that
# is still referenced) costs nothing but garbage kept. A dropped table is not live: its marks may be claimed.
_LIVE_VIEW = """
SELECT t.instance, 'rowset' AS kind, r.id, r.vault, f.key
FROM minidb_file f JOIN minidb_rowset r ON r.id = f.rowset_id JOIN minidb_table t ON t.id = r.table_id
WHERE NOT t.dropped
"""


def open_engine(url: str) -> Engine:
    """Open the database that Sexton's tables are in (``sexton init`` has made them)."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def attach(connection: sqlite3.Connection, _record: Any) -> None:
            # Python's sqlite3 begins a transaction only at its first write; we begin ours ourselves, see writing().
            connection.isolation_level = None
            contract.attach(connection)
            connection.execute("PRAGMA foreign_keys=ON")

    return engine


def create_schema(engine: Engine) -> None:
    """Create what is missing; safe to repeat."""
    metadata.create_all(engine)
    create = "CREATE OR REPLACE VIEW" if engine.dialect.name == "postgresql" else "CREATE VIEW IF NOT EXISTS"
    with writing(engine) as c:
        c.exec_driver_sql(f"{create} sexton_live AS {_LIVE_VIEW}")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A metadata transaction: all of it or, when an exception passes, nothing."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # The write lock first: what is read in here is then still true at the commit.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection
