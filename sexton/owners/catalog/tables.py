"""The catalog's own tables, in Sexton's database: schema ``sexton_catalog`` on PostgreSQL, ``catalog_…`` on SQLite."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, Table, Text, false, text
from sqlalchemy.schema import CreateSchema

from sexton.database import schema
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
    stages: Table
    staged_files: Table
    copy_jobs: Table
    copied_files: Table
    restore_jobs: Table

    @property
    def metadata(self) -> MetaData:
        """Return the metadata of all these tables."""
        return self.tables.metadata


class _TableBuilder:
    """Builds the columns, tables and indexes of one dialect."""

    def __init__(self, dialect: str) -> None:
        is_postgres = dialect == "postgresql"
        self._metadata = MetaData(schema=SCHEMA if is_postgres else None)
        self._prefix = "" if is_postgres else "catalog_"
        # Sexton's columns have this collation too; PostgreSQL refuses to compare two different ones.
        self._text = Text(collation="C") if is_postgres else Text()

    def word(self, name: str, *, null: bool = False) -> Column[Any]:
        return Column(name, self._text, nullable=null)

    def number(self, name: str, *, null: bool = False) -> Column[Any]:
        return Column(name, BigInteger(), nullable=null)

    def flag(self, name: str) -> Column[Any]:
        return Column(name, Boolean(), nullable=False, server_default=false())

    def table(
        self, name: str, keys: int, columns: Sequence[Column[Any]], indexed: Sequence[str] = (), *, paged: bool = False
    ) -> Table:
        """Return a table whose primary key is its first ``keys`` columns and the instance, in this order.

        ``paged``: the rows of a value of an indexed column are read in the order of their ids.
        """
        for column in columns[:keys]:
            column.primary_key = True
        instance = Column("instance", self._text, primary_key=True)
        table = Table(self._prefix + name, self._metadata, *columns[:keys], instance, *columns[keys:])
        for column_name in indexed:
            order = columns[:1] if paged else []
            Index(f"{self._prefix}{name}_{column_name}", table.c[column_name], table.c.instance, *order)
        return table

    def partial_index(
        self, table: Table, name: str, columns: Sequence[str], where: str, *, unique: bool = False
    ) -> None:
        condition: dict[str, Any] = {"postgresql_where": text(where), "sqlite_where": text(where)}
        Index(f"{self._prefix}{name}", *[table.c[column] for column in columns], unique=unique, **condition)


@cache
def build(dialect: str) -> CatalogTables:
    """Return the tables with their names on ``postgresql`` or ``sqlite``."""
    builder = _TableBuilder(dialect)
    word, number, flag, table = builder.word, builder.number, builder.flag, builder.table
    txn_columns = [word("id"), word("label", null=True), word("status"), Column("timeout_at", Instant())]
    txns = table("txns", 1, [*txn_columns, word("parent_id", null=True)], ["parent_id"])
    is_running = "status = 'PREPARED' AND parent_id IS NULL"
    builder.partial_index(txns, "txns_running", ("instance", "timeout_at"), is_running)
    labels = table("labels", 2, [word("txn_id"), word("label"), flag("active")])
    # One transaction of a label may run or be visible; the database itself refuses a second one.
    builder.partial_index(labels, "labels_one", ("instance", "label"), "active", unique=True)
    parents = ["table_id", "index_id", "partition_id"]
    rowset_columns = [
        *(word("id"), word("tablet_id"), word("index_id"), number("schema_version"), word("state")),
        *(number("first_version", null=True), number("last_version", null=True)),
        *(number("segments"), number("bytes"), flag("bitmap"), word("format", null=True)),
        *(word("vault"), word("owner_txn")),
    ]
    stage_columns = [word("id"), word("vault", null=True), flag("dropped")]
    copy_columns = [word("id"), word("stage_id"), word("table_id"), flag("internal"), word("state")]
    copy_jobs = table("copy_jobs", 1, [*copy_columns, Column("timeout_at", Instant())], ["stage_id"])
    is_loading = "state = 'LOADING'"
    builder.partial_index(copy_jobs, "copy_jobs_loading", ("instance", "timeout_at"), is_loading)
    restore_jobs = table("restore_jobs", 1, [word("id"), word("state"), Column("expires_at", Instant())])
    builder.partial_index(restore_jobs, "restore_jobs_running", ("instance", "expires_at"), "state = 'RUNNING'")
    copied_columns = [word("stage_id"), word("table_id"), word("file"), word("etag"), word("job_id")]
    job_columns = [word("id"), word("tablet_id"), word("output_id"), Column("inputs", Json)]
    return CatalogTables(
        tables=table("tables", 1, [word("id"), flag("dropped")]),
        indexes=table("indexes", 1, [word("id"), word("table_id"), flag("base"), flag("dropped")], ["table_id"]),
        schemas=table("schemas", 2, [word("index_id"), number("version"), word("format"), Column("inverted", Json)]),
        partitions=table("partitions", 1, [word("id"), word("table_id"), flag("dropped")], ["table_id"]),
        versions=table("versions", 1, [word("partition_id"), word("table_id"), number("value")], ["table_id"]),
        tablets=table("tablets", 1, [word("id"), *map(word, parents)], parents, paged=True),
        stats=table("stats", 1, [word("tablet_id"), number("rowsets"), number("bytes")]),
        rowsets=table("rowsets", 1, rowset_columns, ["tablet_id", "owner_txn"]),
        txns=txns,
        labels=labels,
        jobs=table("jobs", 1, [*job_columns, Column("expires_at", Instant())], ["tablet_id"]),
        stages=table("stages", 1, stage_columns),
        staged_files=table(
            "staged_files", 1, [word("id"), word("stage_id"), word("name"), number("bytes")], ["stage_id"]
        ),
        copy_jobs=copy_jobs,
        # A file is loaded into a table once; the database itself refuses a second time.
        copied_files=table("copied_files", 4, copied_columns, ["job_id", "file"]),
        restore_jobs=restore_jobs,
    )


def create(db: Database) -> None:
    """Create the tables that do not exist."""
    tables = build(db.dialect)
    with db.write() as c:
        if db.dialect == "postgresql":
            schema.lock_out_others(c, CREATE_LOCK)
            schema.refuse_foreign(c, SCHEMA)
            c.execute(CreateSchema(SCHEMA, if_not_exists=True))
            schema.refuse_foreign(c, SCHEMA)  # it may have been created in between
        tables.metadata.create_all(c)
