"""Dropped tables, indexes and partitions: one mark at the drop, then a mark for each tablet when the drop is due."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, Table, and_, exists, func, literal, select

from sexton.contract import MAX_BYTES
from sexton.database.ranges import within
from sexton.database.rows import sum_of
from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.layout import ROOT
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

PARENTS = ("partition", "index", "table")
"""The kinds of a tablet's parents, in the order in which they mark tablets: the narrow ones first."""
AT_ONCE = 100
"""Parents that are expanded in one transaction at most."""
TABLETS_AT_ONCE = 100_000
"""Tablets that one transaction marks at most: 3 s on PostgreSQL (measured)."""
WAITS = "its children"
ROWSET_MARKS = ("compacted", "dropped", "prepared")
"""Kinds of marks that a rowset may have."""


def column(tx: CatalogTransaction, kind: str) -> Column[Any]:
    """Return the column of tablets that names the parent of this kind."""
    return tx.t.tablets.c[f"{kind}_id"]


def wait(kind: str, tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Let a parent wait until no mark names it and no tablet record names it; then only its records are deleted.

    A tablet whose mark was discarded does not block it: ``forget_given_up`` removes its record, and its files stay.
    """
    mark, parent_id, ids = tx.db.t.mark, column(tx, kind), [due_mark.id for due_mark in marks]
    with_marks = select(mark.c.parent_id).where(tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == kind)
    blocked = set(tx.ids(with_marks.distinct()))
    others = [id_ for id_ in ids if id_ not in blocked]
    with_tablets = select(parent_id).where(tx.in_instance(parent_id, others), ~_has_history(tx))
    blocked |= set(tx.ids(with_tablets.distinct()))
    return {due_mark.ref: Expansion(waits=WAITS if due_mark.id in blocked else "") for due_mark in marks}


def live(kind: str, tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    """Return the parents that are neither dropped nor in a dropped table."""
    records = _records(tx, kind)
    return tx.ids(select(records.c.id).where(tx.in_instance(records.c.id, ids), is_live(tx, kind)))


def is_live(tx: CatalogTransaction, kind: str) -> ColumnElement[bool]:
    """Return the condition that a table, index or partition was not dropped, nor anything above it."""
    records = _records(tx, kind)
    return ~records.c.dropped if kind == "table" else ~records.c.dropped & ~_is_in_dropped_table(tx, records.c.table_id)


def standing(tx: CatalogTransaction) -> ColumnElement[bool]:
    """Return the condition that a tablet's table, index and partition have records, and nothing of it was dropped."""
    tablet, conditions = tx.t.tablets, []
    for kind in PARENTS:
        parent = _records(tx, kind)
        is_own_parent = and_(parent.c.id == column(tx, kind), parent.c.instance == tablet.c.instance)
        conditions.append(exists().where(is_own_parent, ~parent.c.dropped))
    return and_(*conditions)


def _records(tx: CatalogTransaction, kind: str) -> Table:
    return {"table": tx.t.tables, "index": tx.t.indexes, "partition": tx.t.partitions}[kind]


def limited(tx: CatalogTransaction, kind: str, parents: Sequence[str]) -> Sequence[str]:
    """Return the first parents that together have at most ``TABLETS_AT_ONCE`` tablets; at least one parent."""
    parent_id = column(tx, kind)
    counts = select(parent_id, func.count()).where(tx.in_instance(parent_id, parents)).group_by(parent_id)
    tablets = {row[0]: int(row[1]) for row in tx.c.execute(counts)}
    remaining = TABLETS_AT_ONCE
    for index, parent in enumerate(parents):
        remaining -= tablets.get(parent, 0)
        if remaining < 0:
            return parents[: max(1, index)]
    return parents


def mark_tablets(tx: CatalogTransaction, kind: str, parents: Sequence[str], after: str = "") -> str:
    """Mark the tablets of dropped parents by one statement, but for those that are marked or were discarded.

    Of a single parent, at most ``TABLETS_AT_ONCE`` beyond the tablet ``after`` are marked. Return the last of these, if
    the parent has more; otherwise an empty text.
    """
    until = _last_of_part(tx, kind, parents[0], after) if len(parents) == 1 else ""
    t, rowset = tx.t.tablets, tx.t.rowsets
    parent, parent_id = _records(tx, kind), column(tx, kind)
    visible = and_(
        rowset.c.tablet_id == t.c.id, rowset.c.instance == t.c.instance, rowset.c.state == RowsetState.VISIBLE
    )
    size = select(sum_of(rowset.c.bytes, MAX_BYTES)).where(visible).scalar_subquery()
    is_dropped = exists().where(parent.c.id == parent_id, parent.c.instance == t.c.instance, parent.c.dropped)
    tablets: Select[Any] = select(
        t.c.id,
        literal(kind).label("parent_kind"),
        parent_id.label("parent_id"),
        (ROOT + t.c.id + "/").label("prefix"),
        size.label("bytes"),
    ).where(tx.in_instance(parent_id, parents), within(t.c.id, after, until), is_dropped)
    if kind == "table":
        tablets = tablets.where(~_has_marked_parent(tx, "index"), ~_has_marked_parent(tx, "partition"))
    tx.mark("tablet", tablets)
    return until


def forget_given_up(tx: CatalogTransaction, kind: str, parents: Sequence[str]) -> None:
    """Remove the records of tablets whose marks were discarded, with the parents that are deleted without them.

    From then on no record names their files: a check reports them as orphans. A rowset with a mark of its own stays:
    its load, which may run still, must find it or fail.
    """
    t = tx.t
    ids = tx.ids(select(t.tablets.c.id).where(tx.in_instance(column(tx, kind), parents), _has_history(tx)))
    tx.lock_rowsets(ids)
    is_marked = [tx.has_mark(tx.db.t.mark, mark_kind, t.rowsets.c.id) for mark_kind in ROWSET_MARKS]
    tx.remove(t.rowsets.c.tablet_id, ids, *[~condition for condition in is_marked])
    for id_column in (t.jobs.c.tablet_id, t.stats.c.tablet_id, t.tablets.c.id):
        tx.remove(id_column, ids)


def _has_history(tx: CatalogTransaction) -> ColumnElement[bool]:
    """Return the condition that a tablet was discarded: of one that was deleted no record is left."""
    return tx.has_mark(tx.db.t.mark_history, "tablet", tx.t.tablets.c.id)


def _last_of_part(tx: CatalogTransaction, kind: str, parent: str, after: str) -> str:
    """Return the tablet with which the next part of a parent's tablets ends; empty: the parent's last part."""
    t = tx.t.tablets
    following = select(t.c.id).where(tx.in_instance(column(tx, kind), [parent]), t.c.id > after).order_by(t.c.id)
    ends = tx.ids(following.offset(TABLETS_AT_ONCE - 1).limit(2))
    return ends[0] if len(ends) == 2 else ""


def _has_marked_parent(tx: CatalogTransaction, kind: str) -> ColumnElement[bool]:
    """Return the condition that a tablet's index or partition is marked: the tablet is then deleted with that mark."""
    return tx.has_mark(tx.db.t.mark, kind, column(tx, kind))


def _is_in_dropped_table(tx: CatalogTransaction, table_id: Column[Any]) -> ColumnElement[bool]:
    t = tx.t.tables
    return exists().where(t.c.id == table_id, t.c.instance == tx.instance, t.c.dropped)
