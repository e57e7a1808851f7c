"""Define minidb's metadata: three tables, and the view that shows Sexton which files are live.

The tables are in Sexton's database, because a commit must be atomic, and one over two databases is not.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Engine,
    ForeignKey,
    Index,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
)

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

# Sexton looks up keys and prefixes in byte order: with this primary key both are index look-ups.
file = Table(
    "minidb_file",
    metadata,
    Column("key", Text(collation="C"), primary_key=True),
    Column("rowset_id", ForeignKey(rowset.c.id, ondelete="CASCADE"), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Index("minidb_file_of_rowset", "rowset_id"),
)

# Files that Sexton must never delete. It queries this view before each claim, so that a wrong mark for a file that is
# still referenced only delays deletion. A dropped table is not live: its marks may be claimed.
_LIVE_ROWS = """
SELECT t.instance, 'rowset' AS kind, r.id, r.vault, f.key
FROM minidb_file f JOIN minidb_rowset r ON r.id = f.rowset_id JOIN minidb_table t ON t.id = r.table_id
WHERE NOT t.dropped
"""


LIVE_VIEW = "public.sexton_live"
"""Its name, as ``sexton instance add NAME --live-view VIEW`` takes it."""


def open_engine(url: str) -> Engine:
    """Open the database with Sexton's tables (``sexton init`` created them)."""
    return create_engine(url)


def create_schema(engine: Engine) -> None:
    """Create missing tables and the view; repeatable."""
    metadata.create_all(engine)
    with engine.begin() as c:
        c.exec_driver_sql(f"CREATE OR REPLACE VIEW sexton_live AS {_LIVE_ROWS}")
