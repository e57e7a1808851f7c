"""The catalog's own tables, in Sexton's database: schema ``sexton_catalog`` on PostgreSQL, ``catalog_…`` on SQLite."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, Table, Text, false, text
from sqlalchemy.schema import CreateSchema

from sexton.database.engine import Database
from sexton.database.tables import Instant, Json

SCHEMA = "sexton_catalog"
CREATE_LOCK = 0x5E71
"""Advisory lock key: two processes must not both create the tables."""


@dataclass(frozen=True)
class CatalogTables:
    """Every table of the catalog. Each holds the rows of all instances; ``versions`` holds versions of partitions."""

    tables: Table
    indexes: Table
    schemas: Table
    partitions: Table
    versions: Table
    tablets: Table
    stats: Table
    rowsets: Table
    txns: Table
    labels: Table
    jobs: Table

    @property
    def metadata(self) -> MetaData:
        """Return the metadata of all these tables."""
        return self.tables.metadata


@cache
def build(dialect: str) -> CatalogTables:
    """Return the tables with their names on ``postgresql`` or ``sqlite``."""
    postgres = dialect == "postgresql"
    metadata = MetaData(schema=SCHEMA if postgres else None)
    prefix = "" if postgres else "catalog_"
    # Sexton's columns have this collation too; PostgreSQL refuses to compare two different ones.
    text_ = Text(collation="C") if postgres else Text()

    def word(name: str, *, null: bool = False) -> Column[Any]:
        return Column(name, text_, nullable=null)

    def number(name: str, *, null: bool = False) -> Column[Any]:
        return Column(name, BigInteger(), nullable=null)

    def flag(name: str) -> Column[Any]:
        return Column(name, Boolean(), nullable=False, server_default=false())

    def table(name: str, keys: int, columns: Sequence[Column[Any]], indexed: Sequence[str] = ()) -> Table:
        """Return a table whose primary key is its first ``keys`` columns and the instance, in this order."""
        for column in columns[:keys]:
            column.primary_key = True
        result = Table(
            prefix + name, metadata, *columns[:keys], Column("instance", text_, primary_key=True), *columns[keys:]
        )
        for indexed_column in indexed:
            Index(f"{prefix}{name}_{indexed_column}", result.c[indexed_column], result.c.instance)
        return result

    def partial(table: Table, name: str, columns: Sequence[str], where: str, *, unique: bool = False) -> None:
        condition: dict[str, Any] = {"postgresql_where": text(where), "sqlite_where": text(where)}
        Index(f"{prefix}{name}", *[table.c[n] for n in columns], unique=unique, **condition)

    txns = table(
        "txns",
        1,
        [
            word("id"),
            word("label", null=True),
            word("status"),
            Column("timeout_at", Instant()),
            word("parent_id", null=True),
        ],
        ["parent_id"],
    )
    partial(txns, "txns_running", ("instance", "timeout_at"), "status = 'PREPARED' AND parent_id IS NULL")
    labels = table("labels", 2, [word("txn_id"), word("label"), flag("active")])
    # One transaction of a label may run or be visible; the database itself refuses a second one.
    partial(labels, "labels_one", ("instance", "label"), "active", unique=True)
    return CatalogTables(
        tables=table("tables", 1, [word("id"), flag("dropped")]),
        indexes=table("indexes", 1, [word("id"), word("table_id"), flag("base"), flag("dropped")], ["table_id"]),
        schemas=table("schemas", 2, [word("index_id"), number("version"), word("format"), Column("inverted", Json)]),
        partitions=table("partitions", 1, [word("id"), word("table_id"), flag("dropped")], ["table_id"]),
        versions=table("versions", 1, [word("partition_id"), word("table_id"), number("value")], ["table_id"]),
        tablets=table(
            "tablets",
            1,
            [word("id"), word("table_id"), word("index_id"), word("partition_id")],
            ["table_id", "index_id", "partition_id"],
        ),
        stats=table("stats", 1, [word("tablet_id"), number("rowsets"), number("bytes")]),
        rowsets=table(
            "rowsets",
            1,
            [
                *(word("id"), word("tablet_id"), word("index_id"), number("schema_version"), word("state")),
                *(number("first_version", null=True), number("last_version", null=True)),
                *(number("segments"), number("bytes"), flag("bitmap"), word("format", null=True)),
                *(word("vault"), word("owner_txn")),
            ],
            ["tablet_id", "owner_txn"],
        ),
        txns=txns,
        labels=labels,
        jobs=table(
            "jobs",
            1,
            [word("id"), word("tablet_id"), word("output_id"), Column("inputs", Json), Column("expires_at", Instant())],
            ["tablet_id"],
        ),
    )


def create(db: Database) -> None:
    """Create the tables that do not exist."""
    tables = build(db.dialect)
    with db.write() as c:
        if db.dialect == "postgresql":
            c.execute(text("SELECT pg_advisory_xact_lock(:k)"), {"k": CREATE_LOCK})
            c.execute(CreateSchema(SCHEMA, if_not_exists=True))
        tables.metadata.create_all(c)
