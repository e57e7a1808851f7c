"""Drop and undrop tables, indexes and partitions.

A drop returns at once and makes one mark. An undrop restores the object with all its children, or refuses.
"""

from sqlalchemy import Table, select, update

from sexton import contract
from sexton.owners.catalog import discards, undrops
from sexton.owners.catalog.errors import AlreadyDropped, RecordNotFound
from sexton.owners.catalog.records import CatalogRecords, ensure_found, lock_against_drop, title
from sexton.owners.catalog.scope import CatalogTransaction


class Drops(CatalogRecords):
    """Drops and undrops of tables, indexes and partitions."""

    def drop_table(self, table: str) -> None:
        """Drop a table with all its indexes and partitions."""
        with self._write() as tx:
            _flag(tx, tx.t.tables, table)
            discards.mark(tx, "table", [contract.NewMark(id=table, vault=None)])

    def drop_index(self, index: str) -> None:
        """Drop an index in every partition of its table."""
        self._drop_part("index", index)

    def drop_partition(self, partition: str) -> None:
        """Drop a partition of every index of its table."""
        self._drop_part("partition", partition)

    def undrop_table(self, table: str) -> None:
        """Restore a table, with the indexes and partitions that were dropped before it and are not deleted yet.

        Raises:
            contract.Refused: the table or one of its children is claimed or deleted; the message names it.
        """
        with self._write() as tx:
            undrops.begin(tx)
            whole = undrops.Dropped("table", tx.t.tables, [table], ("tablet", "index", "partition"))
            undrops.refuse_claimed(tx, whole)
            parts = [
                undrops.Dropped(kind, _records(tx, kind), _marked_children(tx, kind, table), ("tablet",))
                for kind in ("index", "partition")
            ]
            for dropped in parts:
                undrops.refuse_claimed(tx, dropped)
            for dropped in (whole, *parts):
                undrops.restore(tx, dropped)

    def undrop_index(self, index: str) -> None:
        """Restore an index.

        Raises:
            contract.Refused: the index or one of its tablets is claimed or deleted, or its table is dropped.
        """
        self._undrop_part("index", index)

    def undrop_partition(self, partition: str) -> None:
        """Restore a partition.

        Raises as ``undrop_index`` does.
        """
        self._undrop_part("partition", partition)

    def _drop_part(self, kind: str, id_: str) -> None:
        with self._write() as tx:
            records = _records(tx, kind)
            table = tx.c.execute(
                select(records.c.table_id).where(tx.in_instance(records.c.id, [id_]))
            ).scalar_one_or_none()
            if table is None:
                raise RecordNotFound(f"there is no {kind} {id_}")
            lock_against_drop(tx, tx.t.tables, [table])
            _flag(tx, records, id_)
            discards.mark(tx, kind, [contract.NewMark(id=id_, vault=None, parent=("table", table))])

    def _undrop_part(self, kind: str, id_: str) -> None:
        with self._write() as tx:
            undrops.begin(tx)
            records, tables = _records(tx, kind), tx.t.tables
            of_part = records.c.table_id == tables.c.id, records.c.instance == tables.c.instance
            is_dropped = [tx.in_instance(records.c.id, [id_]), *of_part, tables.c.dropped]
            if dropped_tables := tx.ids(select(tables.c.id).where(*is_dropped)):
                raise contract.Refused(f"SX003 refused: {id_}: its ancestor table {dropped_tables[0]} was dropped")
            undrops.undrop(tx, undrops.Dropped(kind, records, [id_], ("tablet",)))


def _records(tx: CatalogTransaction, kind: str) -> Table:
    return tx.t.indexes if kind == "index" else tx.t.partitions


def _flag(tx: CatalogTransaction, records: Table, id_: str) -> None:
    """Change the flag ``dropped`` of a record.

    Raises:
        RecordNotFound: it has no record.
        AlreadyDropped: it is dropped.
    """
    is_there = [tx.in_instance(records.c.id, [id_]), records.c.dropped.is_(False)]
    if tx.c.execute(update(records).where(*is_there).values(dropped=True)).rowcount != 1:
        ensure_found(records, [id_], tx.ids(select(records.c.id).where(tx.in_instance(records.c.id, [id_]))))
        raise AlreadyDropped(f"{id_} of the {title(records)} is dropped already")


def _marked_children(tx: CatalogTransaction, kind: str, table: str) -> list[str]:
    """Return the indexes, or partitions, that were dropped before their table and have a mark."""
    mark = tx.db.t.mark
    of_table = [tx.in_instance(mark.c.parent_id, [table]), mark.c.parent_kind == "table", mark.c.kind == kind]
    return tx.ids(select(mark.c.id).where(*of_table))
