"""Drops answer at once, by one mark each; undrops bring back the object with all that is below it, or refuse."""

from collections.abc import Sequence

from sqlalchemy import Table, select, update

from sexton import contract
from sexton.owners.catalog.errors import AlreadyDropped, RecordNotFound
from sexton.owners.catalog.records import CatalogRecords, stand
from sexton.owners.catalog.scope import CatalogTransaction


class Drops(CatalogRecords):
    """Tables, indexes and partitions, away and back."""

    def drop_table(self, table: str) -> None:
        """Drop a table with all its indexes and partitions."""
        with self._write() as s:
            _flag(s, s.t.tables, [table])
            contract.mark(s.c, s.instance, "table", [contract.NewMark(id=table, vault=None)])

    def drop_index(self, index: str) -> None:
        """Drop an index in every partition of its table."""
        self._drop_part("index", index)

    def drop_partition(self, partition: str) -> None:
        """Drop a partition of every index of its table."""
        self._drop_part("partition", partition)

    def undrop_table(self, table: str) -> None:
        """Bring a table back, with the indexes and partitions that were dropped before it and are still there.

        Raises:
            contract.Refused: it, or something below it, is claimed or gone; the message names it.
        """
        with self._write() as s:
            contract.undrop(s.c, s.instance, "table", [table])
            indexes = _below(s, "index", "table", [table])
            partitions = _below(s, "partition", "table", [table])
            _take_back(s, "index", indexes)
            _take_back(s, "partition", partitions)
            tablets = _below(s, "tablet", "table", [table])
            tablets += _below(s, "tablet", "index", indexes) + _below(s, "tablet", "partition", partitions)
            _take_back(s, "tablet", tablets)
            for records, ids in ((s.t.tables, [table]), (s.t.indexes, indexes), (s.t.partitions, partitions)):
                _flag(s, records, ids, dropped=False)

    def undrop_index(self, index: str) -> None:
        """Bring an index back.

        Raises:
            contract.Refused: it or a tablet of it is claimed or gone, or its table is dropped.
        """
        self._undrop_part("index", index)

    def undrop_partition(self, partition: str) -> None:
        """Bring a partition back; refused as ``undrop_index`` is."""
        self._undrop_part("partition", partition)

    def _drop_part(self, kind: str, id_: str) -> None:
        with self._write() as s:
            records = _records(s, kind)
            table = s.c.execute(select(records.c.table_id).where(s.mine(records.c.id, [id_]))).scalar_one_or_none()
            if table is None:
                raise RecordNotFound(f"there is no {kind} {id_}")
            stand(s, s.t.tables, [table])
            _flag(s, records, [id_])
            contract.mark(s.c, s.instance, kind, [contract.NewMark(id=id_, vault=None, parent=("table", table))])

    def _undrop_part(self, kind: str, id_: str) -> None:
        with self._write() as s:
            contract.undrop(s.c, s.instance, kind, [id_])
            _take_back(s, "tablet", _below(s, "tablet", kind, [id_]))
            _flag(s, _records(s, kind), [id_], dropped=False)


def _records(s: CatalogTransaction, kind: str) -> Table:
    return s.t.indexes if kind == "index" else s.t.partitions


def _flag(s: CatalogTransaction, records: Table, ids: Sequence[str], *, dropped: bool = True) -> None:
    """Turn the flag, which nobody else has turned meanwhile."""
    turned = update(records).where(s.mine(records.c.id, ids), records.c.dropped.is_(not dropped))
    if s.c.execute(turned.values(dropped=dropped)).rowcount != len(ids):
        known = s.ids(select(records.c.id).where(s.mine(records.c.id, ids)))
        if len(known) < len(ids):
            raise RecordNotFound(f"{records.name} holds no {', '.join(sorted(set(ids) - set(known))[:5])}")
        raise AlreadyDropped(
            f"{', '.join(ids[:5])} (of {records.name}): {'dropped already' if dropped else 'not dropped'}"
        )


def _below(s: CatalogTransaction, kind: str, above: str, ids: Sequence[str]) -> list[str]:
    """Return the marks of a kind that name one of these as parent; asked anew, as a round may just have made them."""
    mark = s.db.t.mark
    return s.ids(
        select(mark.c.id).where(s.mine(mark.c.parent_id, ids), mark.c.parent_kind == above, mark.c.kind == kind)
    )


def _take_back(s: CatalogTransaction, kind: str, ids: Sequence[str]) -> None:
    if ids:
        contract.undrop(s.c, s.instance, kind, ids)
