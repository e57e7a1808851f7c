"""Tables, indexes, partitions and their tablets."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.owners.catalog.layout import check_id
from sexton.owners.catalog.model import NewTable, Schema
from sexton.owners.catalog.records import CatalogRecords, add, mint, stand
from sexton.owners.catalog.scope import CatalogTransaction

FIRST_VERSION = 1
"""Of a partition without a load, and of an index' schema."""


class Tree(CatalogRecords):
    """The hierarchy."""

    def create_table(self, new: NewTable) -> None:
        """Create a table with its indexes, partitions and tablets; tablets get ids of their own."""
        check_id(new.id, *new.partitions)
        with self._write() as s:
            add(s, s.t.tables, [{"id": new.id}])
            for n, (index, schema) in enumerate(new.indexes.items()):
                _index(s, new.id, index, schema, base=n == 0)
            for partition in new.partitions:
                _partition(s, new.id, partition)
            _tablets(s, new.id, list(new.indexes), new.partitions)

    def add_partition(self, table: str, partition: str, tablets: int) -> None:
        """Add a partition with so many tablets for each index of the table."""
        check_id(partition)
        with self._write() as s:
            stand(s, s.t.tables, [table])
            _partition(s, table, partition)
            index = s.t.indexes
            indexes = s.ids(select(index.c.id).where(s.mine(index.c.table_id, [table]), ~index.c.dropped))
            _tablets(s, table, indexes, {partition: tablets})

    def add_index(self, table: str, index: str, schema: Schema, tablets: int) -> None:
        """Add an index with so many tablets in each partition of the table."""
        with self._write() as s:
            stand(s, s.t.tables, [table])
            _index(s, table, index, schema, base=False)
            part = s.t.partitions
            partitions = s.ids(select(part.c.id).where(s.mine(part.c.table_id, [table]), ~part.c.dropped))
            _tablets(s, table, [index], dict.fromkeys(partitions, tablets))

    def alter_index(self, index: str, version: int, schema: Schema) -> None:
        """Record another version of an index' schema; rowsets prepared from now on are written under the highest."""
        with self._write() as s:
            stand(s, s.t.indexes, [index])
            _schema(s, index, version, schema)

    def tablets(self, *, table: str = "", index: str = "", partition: str = "") -> list[str]:
        """Return the ids of the tablets of a table, index or partition; where several are given, of all at once."""
        with self._read() as s:
            t = s.t.tablets
            chosen = select(t.c.id).where(t.c.instance == self._instance).order_by(t.c.id)
            for column, wanted in ((t.c.table_id, table), (t.c.index_id, index), (t.c.partition_id, partition)):
                if wanted:
                    chosen = chosen.where(column == wanted)
            return s.ids(chosen)


def _index(s: CatalogTransaction, table: str, index: str, schema: Schema, *, base: bool) -> None:
    check_id(index)
    add(s, s.t.indexes, [{"id": index, "table_id": table, "base": base}])
    _schema(s, index, FIRST_VERSION, schema)


def _schema(s: CatalogTransaction, index: str, version: int, schema: Schema) -> None:
    check_id(*schema.inverted)
    row = {"index_id": index, "version": version, "format": schema.format, "inverted": list(schema.inverted)}
    add(s, s.t.schemas, [row])


def _partition(s: CatalogTransaction, table: str, partition: str) -> None:
    add(s, s.t.partitions, [{"id": partition, "table_id": table}])
    add(s, s.t.versions, [{"partition_id": partition, "table_id": table, "value": FIRST_VERSION}])


def _tablets(s: CatalogTransaction, table: str, indexes: Sequence[str], partitions: Mapping[str, int]) -> None:
    new = [
        {"id": mint(), "table_id": table, "index_id": index, "partition_id": partition}
        for index in indexes
        for partition, number in partitions.items()
        for _ in range(number)
    ]
    add(s, s.t.tablets, new)
    add(s, s.t.stats, [{"tablet_id": t["id"], "rowsets": 0, "bytes": 0} for t in new])
