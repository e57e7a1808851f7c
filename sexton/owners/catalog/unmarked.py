"""Find records that should be deleted but have no mark, because an operator discarded it: nothing deletes them."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, exists, literal, select

from sexton.owners.catalog import labels, parents
from sexton.owners.catalog.model import FINISHED, RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

MARKS_OF_STATES = (
    ("prepared", (RowsetState.PREPARED, RowsetState.TMP)),
    ("compacted", (RowsetState.COMPACTED,)),
    ("dropped", (RowsetState.DROPPED,)),
)
"""Kind of a mark, and the states of the rowsets that have such a mark."""


def queries(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    """Yield (kind of record, a query that selects their ids and what is wrong)."""
    t = tx.t
    text = "it was dropped, but has no mark: it stays"
    yield "table", _without_mark(tx, "table", t.tables, t.tables.c.dropped, text)
    for kind, records in (("index", t.indexes), ("partition", t.partitions)):
        in_table = exists().where(t.tables.c.id == records.c.table_id, t.tables.c.instance == tx.instance)
        is_dropped = and_(records.c.dropped, in_table.where(~t.tables.c.dropped))
        text = "it was dropped, but has no mark: it is deleted when its table is dropped"
        yield kind, _without_mark(tx, kind, records, is_dropped, text)
    yield from _rowsets(tx)
    has_ended = and_(t.txns.c.parent_id.is_(None), t.txns.c.status.in_(FINISHED))
    stays = "it has ended, but its record has no mark and stays"
    yield "txn", _without_mark(tx, labels.KIND, t.txns, has_ended, stays)


def _without_mark(
    tx: CatalogTransaction, kind: str, records: Table, condition: ColumnElement[bool], detail: str
) -> Select[Any]:
    is_unmarked = ~tx.has_mark(tx.db.t.mark, kind, records.c.id)
    return select(records.c.id, literal(detail)).where(tx.in_instance(records.c.id), condition, is_unmarked)


def _rowsets(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    rowset, tablet = tx.t.rowsets, tx.t.tablets
    in_use = exists().where(tx.is_own_tablet, parents.standing(tx), tablet.c.instance == tx.instance)
    for kind, states in MARKS_OF_STATES:
        text = (
            f"it is {states[-1]}, but has no mark {kind}: it is deleted when its table, index or partition is dropped"
        )
        yield "rowset", _without_mark(tx, kind, rowset, and_(rowset.c.state.in_(states), in_use), text)
