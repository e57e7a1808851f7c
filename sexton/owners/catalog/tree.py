"""Create and alter tables, indexes and partitions with their tablets."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.kernel.errors import BadInput
from sexton.owners.catalog.layout import check_id
from sexton.owners.catalog.model import NewTable, Schema
from sexton.owners.catalog.records import CatalogRecords, add, check_unused, lock_against_drop, new_id
from sexton.owners.catalog.scope import CatalogTransaction

FIRST_VERSION = 1
"""The version of a partition without a load, and of an index's first schema."""
MOST_TABLETS = 100_000
"""Tablets that one call creates."""


class Tree(CatalogRecords):
    """The hierarchy of tables, indexes, partitions and tablets."""

    def create_table(self, new: NewTable) -> None:
        """Create a table with its indexes, partitions and tablets; tablets get ids of their own."""
        check_id(new.id, *new.partitions)
        with self._write() as tx:
            check_unused(tx, "table", new.id)
            add(tx, tx.t.tables, [{"id": new.id}])
            for position, (index, schema) in enumerate(new.indexes.items()):
                _add_index(tx, new.id, index, schema, base=position == 0)
            for partition in new.partitions:
                _add_partition(tx, new.id, partition)
            _add_tablets(tx, new.id, list(new.indexes), new.partitions)

    def add_partition(self, table: str, partition: str, tablets: int) -> None:
        """Add a partition with so many new tablets for each index of the table."""
        check_id(partition)
        with self._write() as tx:
            lock_against_drop(tx, tx.t.tables, [table])
            _add_partition(tx, table, partition)
            index = tx.t.indexes
            indexes = tx.ids(select(index.c.id).where(tx.in_instance(index.c.table_id, [table]), ~index.c.dropped))
            _add_tablets(tx, table, indexes, {partition: tablets})

    def add_index(self, table: str, index: str, index_schema: Schema, tablets: int) -> None:
        """Add an index with so many new tablets in each partition of the table."""
        with self._write() as tx:
            lock_against_drop(tx, tx.t.tables, [table])
            _add_index(tx, table, index, index_schema, base=False)
            part = tx.t.partitions
            partitions = tx.ids(select(part.c.id).where(tx.in_instance(part.c.table_id, [table]), ~part.c.dropped))
            _add_tablets(tx, table, [index], dict.fromkeys(partitions, tablets))

    def alter_index(self, index: str, version: int, index_schema: Schema) -> None:
        """Record another version of an index's schema; rowsets are prepared under the highest version from now on."""
        if version <= FIRST_VERSION:
            raise BadInput(f"version is {version}; an index begins with version {FIRST_VERSION}; the next is above")
        with self._write() as tx:
            t = tx.t.indexes
            table = tx.ids(select(t.c.table_id).where(tx.in_instance(t.c.id, [index])))
            lock_against_drop(tx, tx.t.tables, table)
            lock_against_drop(tx, t, [index])
            _add_schema(tx, index, version, index_schema)

    def tablets(self, *, table: str = "", index: str = "", partition: str = "") -> list[str]:
        """Return the ids of the tablets that belong to every given table, index and partition; empty: to any."""
        with self._read() as tx:
            t = tx.t.tablets
            query = select(t.c.id).where(t.c.instance == self._instance).order_by(t.c.id)
            for column, parent_id in ((t.c.table_id, table), (t.c.index_id, index), (t.c.partition_id, partition)):
                if parent_id:
                    query = query.where(column == parent_id)
            return tx.ids(query)


def _add_index(tx: CatalogTransaction, table: str, index: str, schema: Schema, *, base: bool) -> None:
    check_id(index)
    check_unused(tx, "index", index)
    add(tx, tx.t.indexes, [{"id": index, "table_id": table, "base": base}])
    _add_schema(tx, index, FIRST_VERSION, schema)


def _add_schema(tx: CatalogTransaction, index: str, version: int, schema: Schema) -> None:
    check_id(*schema.inverted)
    row = {"index_id": index, "version": version, "format": schema.format, "inverted": list(schema.inverted)}
    add(tx, tx.t.schemas, [row])


def _add_partition(tx: CatalogTransaction, table: str, partition: str) -> None:
    check_unused(tx, "partition", partition)
    add(tx, tx.t.partitions, [{"id": partition, "table_id": table}])
    add(tx, tx.t.versions, [{"partition_id": partition, "table_id": table, "value": FIRST_VERSION}])


def _check_tablets(number: int) -> None:
    if not 0 <= number <= MOST_TABLETS:
        raise BadInput(f"{number:,} tablets; one call creates 0 to {MOST_TABLETS:,}")


def _add_tablets(tx: CatalogTransaction, table: str, indexes: Sequence[str], partitions: Mapping[str, int]) -> None:
    for number in partitions.values():
        _check_tablets(number)
    _check_tablets(len(indexes) * sum(partitions.values()))
    rows = [
        {"id": new_id(), "table_id": table, "index_id": index, "partition_id": partition}
        for index in indexes
        for partition, number in partitions.items()
        for _ in range(number)
    ]
    add(tx, tx.t.tablets, rows)
    add(tx, tx.t.stats, [{"tablet_id": row["id"], "rowsets": 0, "bytes": 0} for row in rows])
