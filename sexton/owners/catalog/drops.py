"""Drop and undrop tables, indexes and partitions.

A drop returns at once and makes one mark. An undrop restores the object with all its children, or refuses.
"""

from collections.abc import Sequence

from sqlalchemy import Table, delete, select, update

from sexton import contract
from sexton.marks.model import MarkState
from sexton.owners.catalog.errors import AlreadyDropped, RecordNotFound, WrongState
from sexton.owners.catalog.records import CatalogRecords, ensure_found, lock_against_drop, title
from sexton.owners.catalog.scope import CatalogTransaction


class Drops(CatalogRecords):
    """Drops and undrops of tables, indexes and partitions."""

    def drop_table(self, table: str) -> None:
        """Drop a table with all its indexes and partitions."""
        with self._write() as tx:
            _flag(tx, tx.t.tables, table)
            contract.mark(tx.c, tx.instance, "table", [contract.NewMark(id=table, vault=None)])

    def drop_index(self, index: str) -> None:
        """Drop an index in every partition of its table."""
        self._drop_part("index", index)

    def drop_partition(self, partition: str) -> None:
        """Drop a partition of every index of its table."""
        self._drop_part("partition", partition)

    def undrop_table(self, table: str) -> None:
        """Restore a table, with the indexes and partitions that were dropped before it and are not deleted yet.

        Raises:
            contract.Refused: the table or one of its children is claimed, deleted or discarded; the message names it.
            WrongState: the table is not dropped.
        """
        with self._write() as tx:
            _undrop(tx, "table", [table])
            for kind in ("index", "partition"):
                _undrop(tx, kind, _marked_children(tx, kind, table))

    def undrop_index(self, index: str) -> None:
        """Restore an index.

        Raises:
            contract.Refused: the index or one of its tablets is claimed, deleted or discarded, or its table is dropped.
            WrongState: the index is not dropped.
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
            contract.mark(tx.c, tx.instance, kind, [contract.NewMark(id=id_, vault=None, parent=("table", table))])

    def _undrop_part(self, kind: str, id_: str) -> None:
        with self._write() as tx:
            records, tables = _records(tx, kind), tx.t.tables
            of_part = records.c.table_id == tables.c.id, records.c.instance == tables.c.instance
            is_dropped = [tx.in_instance(records.c.id, [id_]), *of_part, tables.c.dropped]
            if dropped_tables := tx.ids(select(tables.c.id).where(*is_dropped)):
                raise contract.Refused(f"SX003 refused: {id_}: its ancestor table {dropped_tables[0]} was dropped")
            _undrop(tx, kind, [id_])


def _records(tx: CatalogTransaction, kind: str) -> Table:
    return {"table": tx.t.tables, "index": tx.t.indexes, "partition": tx.t.partitions}[kind]


def _undrop(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> None:
    """Remove the marks of objects and of their tablets, and change the flags of the records.

    Raises:
        contract.Refused: one of them, or something below, is claimed, deleted or discarded.
        WrongState: one is not dropped.
    """
    if not ids:
        return
    mark, records = tx.db.t.mark, _records(tx, kind)
    of_ids = tx.in_instance(records.c.id, ids)
    if standing := tx.ids(select(records.c.id).where(of_ids, ~records.c.dropped)):
        raise WrongState(f"{kind} {standing[0]} is not dropped")
    # It takes the guard, under which no round claims anything, and waits for a round that marks tablets because of
    # these marks just now. So the tablets are looked up by a later statement.
    contract.undrop(tx.c, tx.instance, kind, ids)
    is_tablet = [tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == kind, mark.c.kind == "tablet"]
    tx.c.execute(delete(mark).where(*is_tablet, mark.c.state == MarkState.MARKED))
    tx.c.execute(select(records.c.id).where(of_ids).order_by(records.c.id).with_for_update())
    tx.c.execute(update(records).where(of_ids).values(dropped=False))


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
