"""Tables, indexes and partitions: one mark at the drop, a mark for each tablet when it is due, records at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, Table, and_, exists, func, literal, select

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.layout import ROOT
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

PARENTS = ("partition", "index", "table")
"""In the order in which they take tablets: the narrow ones first."""
AT_ONCE = 100
TABLETS_AT_ONCE = 100_000
"""Parents expanded in one transaction, and tablets after which it is enough: 3 s on PostgreSQL (measured)."""
WAITS = "its children"


def column(s: CatalogTransaction, kind: str) -> Column[Any]:
    """Return the column of a tablet that names its parent of this kind."""
    return s.t.tablets.c[f"{kind}_id"]


def wait(kind: str, s: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Keep a parent until no mark names it and no tablet record is left under it; then only its records go."""
    mark, above, ids = s.db.t.mark, column(s, kind), [m.id for m in marks]
    named = select(mark.c.parent_id).where(s.mine(mark.c.parent_id, ids), mark.c.parent_kind == kind)
    tablet, history = s.t.tablets, s.db.t.mark_history
    # Whose mark was given up keeps its record and its files, and nobody up.
    given_up = exists().where(history.c.instance == s.instance, history.c.kind == "tablet", history.c.id == tablet.c.id)
    standing_ = select(above).where(s.mine(above, ids), ~given_up).distinct()
    holding = set(s.ids(named.distinct())) | set(s.ids(standing_))
    return {m.ref: Expansion(waits=WAITS if m.id in holding else "") for m in marks}


def live(kind: str, s: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    """Return those that are neither dropped nor in a dropped table."""
    records = _records(s, kind)
    chosen = select(records.c.id).where(s.mine(records.c.id, ids), ~records.c.dropped)
    return s.ids(chosen if kind == "table" else chosen.where(~_dropped_table(s, records.c.table_id)))


def standing(s: CatalogTransaction) -> ColumnElement[bool]:
    """Return the condition that a tablet's table, index and partition have records and were not dropped."""
    t, there = s.t.tablets, []
    for kind in PARENTS:
        above = _records(s, kind)
        there.append(
            exists().where(above.c.id == t.c[f"{kind}_id"], above.c.instance == t.c.instance, ~above.c.dropped)
        )
    return and_(*there)


def _records(s: CatalogTransaction, kind: str) -> Table:
    return {"table": s.t.tables, "index": s.t.indexes, "partition": s.t.partitions}[kind]


def few(s: CatalogTransaction, kind: str, parents: Sequence[str]) -> Sequence[str]:
    """Return as many of the parents, one at least, as have ``TABLETS_AT_ONCE`` tablets together."""
    above = column(s, kind)
    counted = select(above, func.count()).where(s.mine(above, parents)).group_by(above)
    sizes = {row[0]: int(row[1]) for row in s.c.execute(counted)}
    room = TABLETS_AT_ONCE
    for n, parent in enumerate(parents):
        room -= sizes.get(parent, 0)
        if room < 0:
            return parents[: max(1, n)]
    return parents


def mark_tablets(s: CatalogTransaction, kind: str, parents: Sequence[str]) -> None:
    """Mark every tablet of dropped parents, in one statement whatever their number; what is marked stays as it is."""
    t, rowset = s.t.tablets, s.t.rowsets
    records = _records(s, kind)
    above = column(s, kind)
    visible = and_(
        rowset.c.tablet_id == t.c.id, rowset.c.instance == t.c.instance, rowset.c.state == RowsetState.VISIBLE
    )
    size = select(func.coalesce(func.sum(rowset.c.bytes), 0)).where(visible).scalar_subquery()
    truly = exists().where(records.c.id == above, records.c.instance == t.c.instance, records.c.dropped)
    chosen: Select[Any] = select(
        t.c.id,
        literal(kind).label("parent_kind"),
        above.label("parent_id"),
        (ROOT + t.c.id + "/").label("prefix"),
        size.label("bytes"),
    ).where(s.mine(above, parents), truly)
    if kind == "table":
        chosen = chosen.where(~_marked(s, "index"), ~_marked(s, "partition"))
    s.mark("tablet", chosen)


def _marked(s: CatalogTransaction, kind: str) -> ColumnElement[bool]:
    """Return the condition that a tablet goes with a mark of its index or partition, at that mark's time."""
    mark = s.db.t.mark
    same = and_(mark.c.kind == kind, mark.c.id == column(s, kind), mark.c.instance == s.instance)
    return exists().where(same)


def _dropped_table(s: CatalogTransaction, table_id: Column[Any]) -> ColumnElement[bool]:
    t = s.t.tables
    return exists().where(t.c.id == table_id, t.c.instance == s.instance, t.c.dropped)
