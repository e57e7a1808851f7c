"""Create, alter, show, drop and undrop tables, indexes and partitions with their tablets.

A drop returns at once and makes one mark. An undrop restores the object with all its children, or refuses.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Table, delete, func, select

from sexton import contract
from sexton.database.engine import Database
from sexton.database.rows import sum_of
from sexton.kernel.errors import WrongUsage
from sexton.marks.model import MarkState
from sexton.owners.catalog.model import (
    AlreadyDropped,
    AlreadyThere,
    NewTable,
    RecordNotFound,
    Schema,
    ShownPart,
    ShownRowset,
    ShownTable,
    WrongState,
    check_id,
)
from sexton.owners.catalog.records import (
    PARENTS,
    CatalogTransaction,
    add,
    ensure_found,
    lock_against_drop,
    new_id,
    parent_column,
)

FIRST_VERSION = 1
"""The version of a partition without a load, and of an index's first schema."""
MOST_TABLETS = 100_000
"""Tablets that one call creates."""
MOST_SHOWN = 1_000


class Hierarchy:
    """The hierarchy of tables, indexes, partitions and tablets of one instance."""

    def __init__(self, db: Database, instance: str) -> None:
        self._db, self._instance = db, instance

    @contextmanager
    def _read(self) -> Iterator[CatalogTransaction]:
        with self._db.read() as c:
            yield CatalogTransaction(self._db, c, self._instance)

    @contextmanager
    def _write(self) -> Iterator[CatalogTransaction]:
        with self._db.write() as c:
            yield CatalogTransaction(self._db, c, self._instance)

    def create_table(self, new: NewTable) -> None:
        """Create a table with its indexes, partitions and tablets; tablets get ids of their own."""
        check_id(new.id, *new.partitions)
        with self._write() as tx:
            _check_unused(tx, "table", new.id)
            add(tx, tx.t.tables, [{"id": new.id}])
            for index, schema in new.indexes.items():
                _add_index(tx, new.id, index, schema)
            for partition in new.partitions:
                _add_partition(tx, new.id, partition)
            _add_tablets(tx, new.id, list(new.indexes), new.partitions)

    def add_partition(self, table: str, partition: str, tablets: int) -> None:
        """Add a partition with so many new tablets for each index of the table."""
        check_id(partition)
        with self._write() as tx:
            lock_against_drop(tx, tx.t.tables, [table])
            _add_partition(tx, table, partition)
            _add_tablets(tx, table, _standing_parts(tx, tx.t.indexes, table), {partition: tablets})

    def add_index(self, table: str, index: str, index_schema: Schema, tablets: int) -> None:
        """Add an index with so many new tablets in each partition of the table."""
        with self._write() as tx:
            lock_against_drop(tx, tx.t.tables, [table])
            _add_index(tx, table, index, index_schema)
            partitions = _standing_parts(tx, tx.t.partitions, table)
            _add_tablets(tx, table, [index], dict.fromkeys(partitions, tablets))

    def alter_index(self, index: str, version: int, index_schema: Schema) -> None:
        """Record another version of an index's schema; rowsets are prepared under the highest version from now on."""
        if version <= FIRST_VERSION:
            raise WrongUsage(f"version is {version}; an index begins with version {FIRST_VERSION}; the next is above")
        with self._write() as tx:
            t = tx.t.indexes
            table = tx.ids(select(t.c.table_id).where(tx.in_instance(t.c.id, [index])))
            lock_against_drop(tx, tx.t.tables, table)
            lock_against_drop(tx, t, [index])
            _add_schema(tx, index, version, index_schema)

    def tablets(self, *, table: str = "", index: str = "", partition: str = "") -> list[str]:
        """Return the ids of the tablets that belong to every given table, index and partition; empty: to any."""
        given = {"table": table, "index": index, "partition": partition}
        with self._read() as tx:
            is_below = [parent_column(kind) == id_ for kind, id_ in given.items() if id_]
            t = tx.t.tablets
            return tx.ids(select(t.c.id).where(tx.in_instance(t.c.id), *is_below).order_by(t.c.id))

    def show(self, after: str = "", limit: int = 100) -> list[ShownTable]:
        """Return tables with their indexes and partitions, by id.

        ``after``: the last id of the page before; empty: the first page. ``limit``: tables of a page, at most 1,000.
        """
        with self._read() as tx:
            t = tx.t.tables
            query = select(t.c.id, t.c.dropped).where(tx.in_instance(t.c.id), t.c.id > after)
            tables = {row.id: row.dropped for row in tx.c.execute(query.order_by(t.c.id).limit(_checked(limit)))}
            indexes, partitions = (_shown_parts(tx, part, tables) for part in (tx.t.indexes, tx.t.partitions))
            tablet, stats = tx.t.tablets, tx.t.stats
            is_own = (stats.c.tablet_id == tablet.c.id) & (stats.c.instance == tablet.c.instance)
            sums = [func.count().label("tablets"), *(sum_of(stats.c[n]).label(n) for n in ("rowsets", "bytes"))]
            of_tables = select(tablet.c.table_id, *sums).select_from(tablet.outerjoin(stats, is_own))
            rows = tx.c.execute(of_tables.where(tx.in_instance(tablet.c.table_id, tables)).group_by(tablet.c.table_id))
            sizes = {row.table_id: {n: int(row._mapping[n]) for n in ("tablets", "rowsets", "bytes")} for row in rows}
            return [
                ShownTable(
                    id=id_,
                    dropped=dropped,
                    indexes=tuple(indexes[id_]),
                    partitions=tuple(partitions[id_]),
                    **sizes.get(id_, {}),
                )
                for id_, dropped in tables.items()
            ]

    def rowsets(self, tablet: str, after: str = "", limit: int = 100) -> list[ShownRowset]:
        """Return the rowsets of a tablet, by id.

        ``after`` and ``limit``: as in ``show``.
        """
        with self._read() as tx:
            t = tx.t.rowsets
            columns = [t.c[name] for name in ShownRowset.model_fields]
            query = select(*columns).where(tx.in_instance(t.c.tablet_id, [tablet]), t.c.id > after)
            rows = tx.c.execute(query.order_by(t.c.id).limit(_checked(limit)))
            return [ShownRowset(**row._mapping) for row in rows]

    def drop_table(self, table: str) -> None:
        """Drop a table with all its indexes and partitions."""
        with self._write() as tx:
            _drop(tx, "table", table)

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
            mark = tx.db.t.mark
            of_table = [tx.in_instance(mark.c.parent_id, [table]), mark.c.parent_kind == "table"]
            for kind in ("index", "partition"):  # those that were dropped before their table
                _undrop(tx, kind, tx.ids(select(mark.c.id).where(*of_table, mark.c.kind == kind)))

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
            part = PARENTS[kind].c
            tables = tx.ids(select(part.table_id).where(tx.in_instance(part.id, [id_])))
            if not tables:
                raise RecordNotFound(f"there is no {kind} {id_}")
            lock_against_drop(tx, tx.t.tables, tables)
            _drop(tx, kind, id_, parent=("table", tables[0]))

    def _undrop_part(self, kind: str, id_: str) -> None:
        with self._write() as tx:
            part, tables = PARENTS[kind].c, tx.t.tables.c
            of_part = part.table_id == tables.id, part.instance == tables.instance
            dropped = select(tables.id).where(tx.in_instance(part.id, [id_]), *of_part, tables.dropped)
            if dropped_tables := tx.ids(dropped):
                raise contract.Refused(f"SX003 refused: {id_}: its ancestor table {dropped_tables[0]} was dropped")
            _undrop(tx, kind, [id_])


def _check_unused(tx: CatalogTransaction, kind: str, id_: str) -> None:
    """Raise ``AlreadyThere`` for an id that was dropped: its deletion would delete what has the same id."""
    queries = [
        select(marks.c.id).where(tx.in_instance(marks.c.id, [id_]), marks.c.kind == kind)
        for marks in (tx.db.t.mark, tx.db.t.mark_history)
    ]
    for query in queries:
        if tx.ids(query.limit(1)):
            raise AlreadyThere(f"{kind} {id_} was used before, and dropped; use a new id: ids are never used again")


def _add_index(tx: CatalogTransaction, table: str, index: str, schema: Schema) -> None:
    check_id(index)
    _check_unused(tx, "index", index)
    add(tx, tx.t.indexes, [{"id": index, "table_id": table}])
    _add_schema(tx, index, FIRST_VERSION, schema)


def _add_schema(tx: CatalogTransaction, index: str, version: int, schema: Schema) -> None:
    check_id(*schema.inverted)
    row = {"index_id": index, "version": version, "format": schema.format, "inverted": list(schema.inverted)}
    add(tx, tx.t.schemas, [row])


def _add_partition(tx: CatalogTransaction, table: str, partition: str) -> None:
    _check_unused(tx, "partition", partition)
    add(tx, tx.t.partitions, [{"id": partition, "table_id": table}])
    add(tx, tx.t.versions, [{"partition_id": partition, "table_id": table, "value": FIRST_VERSION}])


def _add_tablets(tx: CatalogTransaction, table: str, indexes: Sequence[str], partitions: Mapping[str, int]) -> None:
    for number in (*partitions.values(), len(indexes) * sum(partitions.values())):
        if not 0 <= number <= MOST_TABLETS:
            raise WrongUsage(f"{number:,} tablets; one call creates 0 to {MOST_TABLETS:,}")
    rows = [
        {"id": new_id(), "table_id": table, "index_id": index, "partition_id": partition}
        for index in indexes
        for partition, number in partitions.items()
        for _ in range(number)
    ]
    add(tx, tx.t.tablets, rows)
    add(tx, tx.t.stats, [{"tablet_id": row["id"], "rowsets": 0, "bytes": 0} for row in rows])


def _standing_parts(tx: CatalogTransaction, parts: Table, table: str) -> list[str]:
    """Return the indexes, or partitions, of a table that were not dropped."""
    return tx.ids(select(parts.c.id).where(tx.in_instance(parts.c.table_id, [table]), ~parts.c.dropped))


def _shown_parts(tx: CatalogTransaction, part: Table, tables: Mapping[str, bool]) -> dict[str, list[ShownPart]]:
    """Return table → its indexes, or its partitions."""
    parts: dict[str, list[ShownPart]] = defaultdict(list)
    query = select(part.c.table_id, part.c.id, part.c.dropped).where(tx.in_instance(part.c.table_id, tables))
    for row in tx.c.execute(query.order_by(part.c.id)):
        parts[row.table_id].append(ShownPart(id=row.id, dropped=row.dropped))
    return parts


def _checked(limit: int) -> int:
    if not 0 < limit <= MOST_SHOWN:
        raise WrongUsage(f"limit is {limit}; it must be 1 to {MOST_SHOWN}")
    return limit


def _drop(tx: CatalogTransaction, kind: str, id_: str, parent: tuple[str, str] | None = None) -> None:
    """Change the flag ``dropped`` of a record, and mark it.

    Raises:
        RecordNotFound: it has no record.
        AlreadyDropped: it is dropped.
    """
    records = PARENTS[kind]
    of_id = tx.in_instance(records.c.id, [id_])
    if tx.change(records.c.id, [id_], ~records.c.dropped, dropped=True) != 1:
        ensure_found(records, [id_], tx.ids(select(records.c.id).where(of_id)))
        raise AlreadyDropped(f"{id_} of the {records.name} is dropped already")
    contract.mark(tx.c, tx.instance, kind, [contract.NewMark(id=id_, vault=None, parent=parent)])


def _undrop(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> None:
    """Remove the marks of objects and of their tablets, and change the flags of the records.

    Raises:
        contract.Refused: one of them, or something below, is claimed, deleted or discarded.
        WrongState: one is not dropped.
    """
    if not ids:
        return
    mark, records = tx.db.t.mark, PARENTS[kind]
    of_ids = tx.in_instance(records.c.id, ids)
    if standing := tx.ids(select(records.c.id).where(of_ids, ~records.c.dropped)):
        raise WrongState(f"{kind} {standing[0]} is not dropped")
    # It takes the guard, under which no round claims anything, and waits for a round that marks tablets because of
    # these marks just now. So the tablets are looked up by a later statement.
    contract.undrop(tx.c, tx.instance, kind, ids)
    is_tablet = [tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == kind, mark.c.kind == "tablet"]
    tx.c.execute(delete(mark).where(*is_tablet, mark.c.state == MarkState.MARKED))
    tx.c.execute(select(records.c.id).where(of_ids).order_by(records.c.id).with_for_update())
    tx.change(records.c.id, ids, dropped=False)
