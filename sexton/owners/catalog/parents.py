"""Dropped tables, indexes and partitions: one mark at the drop, then a mark for each tablet when the drop is due."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, Table, and_, exists, false, func, literal, or_, select, update

from sexton.contract import MAX_BYTES
from sexton.database.ranges import within
from sexton.database.rows import in_list, sum_of
from sexton.marks.model import DueMark, Expansion, MarkState, Ref
from sexton.owners.catalog import discards
from sexton.owners.catalog.layout import ROOT
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

PARENTS = ("partition", "index", "table")
"""The kinds of a tablet's parents, in the order in which they mark tablets: the narrow ones first."""
OTHERS = {"index": ("partition",), "partition": ("index",), "table": ("index", "partition")}
"""Kind of a parent → the kinds of a tablet's other parents that may be dropped beside it."""
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
    blocks = ~_was_discarded(tx, kind, since_drop=True)
    blocked |= set(tx.ids(select(parent_id).where(tx.in_instance(parent_id, others), blocks).distinct()))
    return {due_mark.ref: Expansion(waits=WAITS if due_mark.id in blocked else "") for due_mark in marks}


def live(kind: str, tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    """Return the parents that are neither dropped nor in a dropped table."""
    records = _records(tx, kind)
    return tx.ids(select(records.c.id).where(tx.in_instance(records.c.id, ids), is_live(tx, kind)))


def is_live(tx: CatalogTransaction, kind: str) -> ColumnElement[bool]:
    """Return the condition that a table, index or partition was not dropped, nor anything above it."""
    if tx.is_dropped:
        return false()
    records = _records(tx, kind)
    return ~records.c.dropped if kind == "table" else ~records.c.dropped & ~_is_in_dropped_table(tx, records.c.table_id)


def standing(tx: CatalogTransaction) -> ColumnElement[bool]:
    """Return the condition that a tablet's table, index and partition have records, and nothing of it was dropped."""
    if tx.is_dropped:
        return false()
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
    """Mark the tablets of dropped parents by one statement; tablets that are marked already are left unchanged.

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
    is_of_part = [tx.in_instance(parent_id, parents), within(t.c.id, after, until)]
    given_up = _given_up_before(tx, kind, is_of_part)
    discards.forget(tx, "tablet", given_up)
    is_dropped = exists().where(parent.c.id == parent_id, parent.c.instance == t.c.instance, parent.c.dropped)
    tablets: Select[Any] = select(
        t.c.id,
        literal(kind).label("parent_kind"),
        parent_id.label("parent_id"),
        (ROOT + t.c.id + "/").label("prefix"),
        size.label("bytes"),
    ).where(*is_of_part, is_dropped)
    if kind == "table":
        has_no_other = and_(~_has_marked_parent(tx, "index"), ~_has_marked_parent(tx, "partition"))
        tablets = tablets.where(or_(has_no_other, in_list(tx.db, t.c.id, given_up)))
    tx.mark("tablet", tablets)
    return until


def _given_up_before(tx: CatalogTransaction, kind: str, is_of_part: Sequence[ColumnElement[bool]]) -> Sequence[str]:
    """Return the tablets that were discarded before the drop of their parent, which is a newer decision.

    Not those that another parent ends without, see ``given_up_by_other``. Those that this parent ends without are
    remembered with it.
    """
    t = tx.t.tablets
    discarded = tx.ids(select(t.c.id).where(*is_of_part, tx.has_mark(tx.db.t.mark_history, "tablet", t.c.id)))
    if not discarded:
        return ()
    is_discarded = tx.in_instance(t.c.id, discarded)
    remember_below(tx, kind, tx.ids(select(t.c.id).where(is_discarded, _was_discarded(tx, kind, since_drop=True))))
    before = tx.ids(select(t.c.id).where(is_discarded, _was_discarded(tx, kind, since_drop=False)))
    return sorted(set(before) - set(given_up_by_other(tx, kind, before)))


def given_up_by_other(tx: CatalogTransaction, kind: str, tablets: Sequence[str]) -> Sequence[str]:
    """Return which tablets were discarded since the drop of another parent than the one of this kind.

    The other parent ends without them, whatever becomes of this one. A drop of the table is a newer decision, and its
    undrop restores indexes and partitions, too, but for those that are claimed already.
    """
    if not tablets:
        return ()
    t, mark = tx.t.tablets, tx.db.t.mark
    others = []
    for other in OTHERS[kind]:
        condition = _was_discarded(tx, other, since_drop=True)
        if kind == "table":
            condition &= _scalar(tx, mark, other, column(tx, other), mark.c.state) == MarkState.CLAIMED
        others.append(condition)
    return tx.ids(select(t.c.id).where(tx.in_instance(t.c.id, tablets), or_(*others)))


def remember_below(tx: CatalogTransaction, kind: str, tablets: Sequence[str]) -> None:
    """Let discards of tablets be remembered as long as this parent of theirs has a mark, if the named one has none."""
    mark, history = tx.db.t.mark, tx.db.t.mark_history
    names_marked = exists().where(
        mark.c.id == history.c.parent_id, mark.c.kind == history.c.parent_kind, mark.c.instance == history.c.instance
    )
    _name_parent(tx, kind, tablets, ~names_marked)


def _name_parent(tx: CatalogTransaction, kind: str, tablets: Sequence[str], *only: ColumnElement[bool]) -> None:
    """Let the discards of tablets name their parent of this kind."""
    history, t = tx.db.t.mark_history, tx.t.tablets
    is_own_tablet = [t.c.id == history.c.id, t.c.instance == history.c.instance]
    own_id = select(column(tx, kind)).where(*is_own_tablet).scalar_subquery()
    is_discard = [tx.in_instance(history.c.id, tablets), history.c.kind == "tablet", history.c.discarded.is_not(None)]
    is_discard += [exists().where(*is_own_tablet), *only]  # another parent may have ended just now
    discards.lock(tx, is_discard)
    tx.c.execute(update(history).where(*is_discard).values(parent_kind=kind, parent_id=own_id))


def forget_given_up(tx: CatalogTransaction, kind: str, parents: Sequence[str]) -> None:
    """Remove the records of tablets whose marks were discarded, with the parents that are deleted without them.

    From then on no record names their files: a check reports them as orphans. A rowset with a mark of its own stays:
    its load, which may run still, must find it or fail.
    """
    t = tx.t
    is_given_up = [tx.in_instance(column(tx, kind), parents), _was_discarded(tx, kind, since_drop=True)]
    ids = tx.ids(select(t.tablets.c.id).where(*is_given_up))
    _name_parent(tx, kind, ids)  # their other parent did not lose them, and may be undropped
    tx.lock_rowsets(ids)
    is_marked = [tx.has_mark(tx.db.t.mark, mark_kind, t.rowsets.c.id) for mark_kind in ROWSET_MARKS]
    tx.remove(t.rowsets.c.tablet_id, ids, *[~condition for condition in is_marked])
    for id_column in (t.jobs.c.tablet_id, t.stats.c.tablet_id, t.tablets.c.id):
        tx.remove(id_column, ids)


def _was_discarded(tx: CatalogTransaction, kind: str, *, since_drop: bool) -> ColumnElement[bool]:
    """Return the condition that the mark of a tablet was discarded since its parent was dropped, or before.

    A drop after the discard is a newer decision: the tablet is deleted with what was dropped. Both rows are looked up
    by their ids; see ``CatalogTransaction.has_mark``.
    """
    mark, history, tablet = tx.db.t.mark, tx.db.t.mark_history, tx.t.tablets
    dropped_at = _scalar(tx, mark, kind, column(tx, kind), mark.c.marked_at)
    discarded_at = _scalar(tx, history, "tablet", tablet.c.id, history.c.gone_at)
    is_in_time = discarded_at > dropped_at if since_drop else discarded_at <= dropped_at
    return and_(discarded_at.is_not(None), is_in_time)


def _scalar(tx: CatalogTransaction, t: Table, kind: str, id_: Column[Any], value: Column[Any]) -> ColumnElement[Any]:
    """Return a column of the mark, or row of history, that has the id of the row at hand."""
    is_own = [t.c.id == id_, t.c.kind + "" == kind, t.c.instance + "" == tx.instance]
    return select(value).where(*is_own).scalar_subquery()


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
