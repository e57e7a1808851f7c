"""The catalog's own tables, in Sexton's database: schema ``sexton_catalog``."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Index, MetaData, Table, delete
from sqlalchemy.schema import CreateSchema

from sexton.database import schema
from sexton.database.engine import Database
from sexton.database.tables.columns import bigint, boolean, index, instant, jsonb, word

SCHEMA = "sexton_catalog"
CREATE_LOCK = 0x5E71
"""Advisory lock key: two processes must not both create the tables."""
_METADATA = MetaData(schema=SCHEMA)


def _table(
    name: str, *columns: Column[Any], indexed: Sequence[str] = (), paged: bool = False, of_some: Sequence[Index] = ()
) -> Table:
    """Return a table.

    ``columns``: those of the primary key come first, and the instance is the last of these. ``indexed``: columns that
    are looked up with the instance. ``paged``: the rows of a value of an indexed column are read in the order of their
    ids. ``of_some``: indexes of some of its rows.
    """
    keys = [column for column in columns if column.primary_key]
    order = ["id"] if paged else []
    indexes = [index(f"{name}_{column}", column, "instance", *order) for column in indexed]
    return Table(name, _METADATA, *keys, word("instance", key=True), *columns[len(keys) :], *indexes, *of_some)


class CatalogTables:
    """Every table of the catalog. Each holds the rows of all instances; ``versions`` holds versions of partitions."""

    tables = _table("tables", word("id", key=True), boolean("dropped", default=False))
    indexes = _table(
        "indexes", word("id", key=True), word("table_id"), boolean("dropped", default=False), indexed=["table_id"]
    )
    schemas = _table(
        "schemas", word("index_id", key=True), bigint("version", key=True), word("format"), jsonb("inverted", null=True)
    )
    partitions = _table(
        "partitions", word("id", key=True), word("table_id"), boolean("dropped", default=False), indexed=["table_id"]
    )
    versions = _table(
        "versions", word("partition_id", key=True), word("table_id"), bigint("value"), indexed=["table_id"]
    )
    tablets = _table(
        "tablets",
        word("id", key=True),
        word("table_id"),
        word("index_id"),
        word("partition_id"),
        indexed=["table_id", "index_id", "partition_id"],
        paged=True,
    )
    stats = _table("stats", word("tablet_id", key=True), bigint("rowsets"), bigint("bytes"))
    rowsets = _table(
        "rowsets",
        word("id", key=True),
        word("tablet_id"),
        word("index_id"),
        bigint("schema_version"),
        word("state"),
        bigint("first_version", null=True),
        bigint("last_version", null=True),
        bigint("segments"),
        bigint("bytes"),
        boolean("bitmap", default=False),
        word("format", null=True),
        word("vault"),
        word("owner_txn"),
        indexed=["tablet_id", "owner_txn"],
    )
    txns = _table(
        "txns",
        word("id", key=True),
        word("label", null=True),
        word("status"),
        instant("timeout_at", null=True),
        word("parent_id", null=True),
        indexed=["parent_id"],
        of_some=[index("txns_running", "instance", "timeout_at", where="status = 'PREPARED' AND parent_id IS NULL")],
    )
    labels = _table(
        "labels",
        word("txn_id", key=True),
        word("label", key=True),
        boolean("active", default=False),
        # One transaction of a label may run or be visible; the database itself refuses a second one.
        of_some=[index("labels_one", "instance", "label", where="active", unique=True)],
    )
    jobs = _table(
        "jobs",
        word("id", key=True),
        word("tablet_id"),
        word("output_id"),
        jsonb("inputs", null=True),
        indexed=["tablet_id"],
    )


TABLES = CatalogTables()


def create(db: Database) -> None:
    """Create the tables that do not exist."""
    with db.write() as c:
        schema.lock_out_others(c, CREATE_LOCK)
        schema.refuse_foreign(c, SCHEMA)
        c.execute(CreateSchema(SCHEMA, if_not_exists=True))
        schema.refuse_foreign(c, SCHEMA)  # it may have been created in between
        _METADATA.create_all(c)


def forget(c: Connection, instance: str) -> None:
    """Remove every row of an instance."""
    for table in _METADATA.sorted_tables:
        c.execute(delete(table).where(table.c.instance == instance))
