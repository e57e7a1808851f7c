"""Drop and undrop tables, indexes and partitions.

A drop returns at once and makes one mark. An undrop restores the object with all its children, or refuses.
"""

from collections.abc import Sequence

from sqlalchemy import Table, select, update

from sexton import contract
from sexton.owners.catalog import discards
from sexton.owners.catalog.errors import AlreadyDropped, RecordNotFound
from sexton.owners.catalog.records import CatalogRecords, ensure_found, lock_against_drop, title
from sexton.owners.catalog.scope import CatalogTransaction


class Drops(CatalogRecords):
    """Drops and undrops of tables, indexes and partitions."""

    def drop_table(self, table: str) -> None:
        """Drop a table with all its indexes and partitions."""
        with self._write() as tx:
            _flag(tx, tx.t.tables, [table])
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
            indexes: list[str] = []
            partitions: list[str] = []
            if discards.undrop(tx, "table", tx.t.tables, table):
                indexes = _marked_children(tx, "index", "table", [table])
                partitions = _marked_children(tx, "partition", "table", [table])
                _take_back(tx, "index", indexes)
                _take_back(tx, "partition", partitions)
                tablets = _marked_children(tx, "tablet", "table", [table])
                tablets += _marked_children(tx, "tablet", "index", indexes) + _marked_children(
                    tx, "tablet", "partition", partitions
                )
                _take_back(tx, "tablet", tablets)
            for records, ids in ((tx.t.tables, [table]), (tx.t.indexes, indexes), (tx.t.partitions, partitions)):
                _flag(tx, records, ids, dropped=False)

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
            _flag(tx, records, [id_])
            discards.mark(tx, kind, [contract.NewMark(id=id_, vault=None, parent=("table", table))])

    def _undrop_part(self, kind: str, id_: str) -> None:
        with self._write() as tx:
            records = _records(tx, kind)
            if discards.undrop(tx, kind, records, id_):
                _take_back(tx, "tablet", _marked_children(tx, "tablet", kind, [id_]))
            _flag(tx, records, [id_], dropped=False)


def _records(tx: CatalogTransaction, kind: str) -> Table:
    return tx.t.indexes if kind == "index" else tx.t.partitions


def _flag(tx: CatalogTransaction, records: Table, ids: Sequence[str], *, dropped: bool = True) -> None:
    """Change the flag ``dropped`` of every record.

    Raises:
        RecordNotFound: one has no record.
        AlreadyDropped: one has this flag already.
    """
    change = update(records).where(tx.in_instance(records.c.id, ids), records.c.dropped.is_(not dropped))
    if tx.c.execute(change.values(dropped=dropped)).rowcount != len(ids):
        existing_ids = tx.ids(select(records.c.id).where(tx.in_instance(records.c.id, ids)))
        ensure_found(records, ids, existing_ids)
        state = "dropped already" if dropped else "not dropped"
        raise AlreadyDropped(f"{', '.join(ids[:5])} of the {title(records)}: {state}")


def _marked_children(tx: CatalogTransaction, kind: str, parent_kind: str, ids: Sequence[str]) -> list[str]:
    """Return the marks of a kind that name one of these as parent; read again each time, as a round may make some."""
    mark = tx.db.t.mark
    return tx.ids(
        select(mark.c.id).where(
            tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == parent_kind, mark.c.kind == kind
        )
    )


def _take_back(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> None:
    if ids:
        contract.undrop(tx.c, tx.instance, kind, ids)
