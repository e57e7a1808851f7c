"""Find records of the catalog that contradict each other: references to missing records, and wrong counters.

A record that should be deleted, but has no mark, contradicts its state.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Select, Table, and_, exists, func, literal, or_, select

from sexton.database.ranges import READ_ROWS
from sexton.owners.catalog import unmarked
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.port import RecordText


def contradictions(tx: CatalogTransaction) -> Iterator[RecordText]:
    """Yield each record that contradicts another one, once for each contradiction."""
    for kind, query in _integrity_queries(tx):
        for record_id, detail in tx.c.execution_options(yield_per=READ_ROWS).execute(query):
            yield RecordText(kind, record_id, detail)


def _integrity_queries(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    """Yield (kind of record, a query that selects the ids of wrong records and what is wrong)."""
    t = tx.t
    for parent, table in (("table", t.tables), ("index", t.indexes), ("partition", t.partitions)):
        yield "tablet", _orphaned_children(tx, t.tablets, table, f"{parent}_id", f"its {parent} has no record: ")
    for kind, table in (("index", t.indexes), ("partition", t.partitions)):
        yield kind, _orphaned_children(tx, table, t.tables, "table_id", "its table has no record: ")
    lone_rowsets = _orphaned_children(tx, t.rowsets, t.tablets, "tablet_id", "its tablet has no record: ")
    lone = lone_rowsets.offset(0).subquery()  # first these, which are few; their marks are looked up afterwards
    marked = [tx.has_mark(tx.db.t.mark, kind, lone.c.id) for kind, _ in unmarked.MARKS_OF_STATES]
    yield "rowset", select(lone).where(*[~has_mark for has_mark in marked])  # others are deleted by their marks
    yield (
        "version",
        _orphaned_children(
            tx, t.versions, t.partitions, "partition_id", "its partition has no record: ", id_column="partition_id"
        ),
    )
    yield (
        "label",
        _orphaned_children(tx, t.labels, t.txns, "txn_id", "its transaction has no record: ", id_column="label"),
    )
    yield "rowset", _rowsets_without_schema(tx)
    yield "tablet", _wrong_counters(tx)
    yield from unmarked.queries(tx)


def _orphaned_children(
    tx: CatalogTransaction, children: Table, parents: Table, parent_column: str, detail: str, *, id_column: str = "id"
) -> Select[Any]:
    """Select the records whose parent has no record; ``detail`` is followed by the parent's id."""
    parent_id, child_id = children.c[parent_column], children.c[id_column]
    has_parent = exists().where(parents.c.id == parent_id, parents.c.instance == children.c.instance)
    return select(child_id, literal(detail) + parent_id).where(tx.in_instance(child_id), ~has_parent)


def _rowsets_without_schema(tx: CatalogTransaction) -> Select[Any]:
    rowset = tx.t.rowsets
    return select(rowset.c.id, literal("the schema it was written under has no record")).where(
        tx.in_instance(rowset.c.id), rowset.c.state == RowsetState.VISIBLE, ~exists().where(tx.is_own_schema)
    )


def _wrong_counters(tx: CatalogTransaction) -> Select[Any]:
    """Select the tablets whose counters differ from the sums over their visible rowsets."""
    rowset, stats = tx.t.rowsets, tx.t.stats
    visible_rowsets = and_(
        rowset.c.tablet_id == stats.c.tablet_id,
        rowset.c.instance == stats.c.instance,
        rowset.c.state == RowsetState.VISIBLE,
    )
    count = select(func.count()).where(visible_rowsets).scalar_subquery()
    size = select(func.coalesce(func.sum(rowset.c.bytes), 0)).where(visible_rowsets).scalar_subquery()
    is_wrong = or_(stats.c.rowsets != count, stats.c.bytes != size)
    return select(stats.c.tablet_id, literal("its counters differ from its visible rowsets")).where(
        tx.in_instance(stats.c.tablet_id), is_wrong
    )
