"""Decide in SQL which marks a hold blocks, as far as the marks' rows show it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Connection,
    Table,
    and_,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from sexton.database.engine import Database
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.ancestors import PARENT_LEVELS
from sexton.marks.sql.rows import has_key_under


def blocked_by_hold(db: Database, c: Connection, instance: str) -> Mapping[int, ColumnElement[bool]]:
    """Return the holds of an instance that are in force, each with the condition that it blocks a mark.

    The first hold on a mark also blocks marks whose ancestors are not all read.
    """
    t = db.t.hold
    active = and_(t.c.instance == instance, t.c.released_at.is_(None), t.c.expires_at > db.now(c))
    rows = c.execute(select(t).where(active).order_by(t.c.id)).all()
    # A mark that names no prefix or vault is under none: NULL would leave it out of what no hold blocks, too.
    blocked: dict[int, ColumnElement[bool]] = {row.id: func.coalesce(names(db, row), false()) for row in rows}
    for first in [row.id for row in rows if row.scope == "mark"][:1]:
        blocked[first] = or_(blocked[first], has_many_levels(db))
        c.exec_driver_sql("SET LOCAL jit = off")  # compiling the condition would take seconds for each kind
    return blocked


def names(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a hold, a value or a row, blocks a mark of its instance, as far as its row shows it.

    A prefix hold may also block a mark whose prefix is above it: that depends on the files there.
    """
    if hold.scope == "mark":
        return is_or_descends_from(db, hold)
    if hold.scope != "prefix":
        return true()
    has_key = has_key_under(db.t.mark, str(hold.prefix))
    return or_(has_prefix_under(db, hold), and_(db.t.mark.c.vault == hold.vault, has_key))


def is_held(table: Table, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a row is the mark that the hold names."""
    return and_(table.c.instance == hold.instance, and_(table.c.id == hold.mark_id, table.c.kind == hold.mark_kind))


def is_or_descends_from(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark is the one that the hold names, or a descendant within the levels climbed.

    Each mark is judged by its own ancestors. A condition that it is among the descendants of the hold's mark would be
    compared with each of these where PostgreSQL expects more of them than it hashes: 20,000 children took 90 s.
    """
    mark, up = db.t.mark, _lineage(db)
    levels = select(up.c.kind, up.c.id).limit(PARENT_LEVELS + 1).subquery()
    above = select(literal(1)).where(levels.c.kind == hold.mark_kind, levels.c.id == hold.mark_id).exists()
    is_child = and_(mark.c.parent_kind == hold.mark_kind, mark.c.parent_id == hold.mark_id)
    is_below = or_(is_child, and_(_has_two_levels(db), above))
    return or_(is_held(mark, hold), and_(mark.c.instance == hold.instance, mark.c.parent_id.is_not(None), is_below))


def with_descendants(db: Database, hold: Any) -> CompoundSelect[Any]:
    """Select kind, id and state of the mark that the hold names, and of its descendants: the cost follows these alone.

    UNION ends a circle of parents. With LATERAL and OFFSET the children of each mark are looked up by themselves.
    """
    mark = db.t.mark
    rows = select(mark.c.kind, mark.c.id, mark.c.state)
    of_instance = mark.c.instance == hold.instance
    is_child = and_(of_instance, mark.c.parent_kind == hold.mark_kind, mark.c.parent_id == hold.mark_id)
    below = rows.where(is_child).cte("below", recursive=True)
    is_next = and_(of_instance, mark.c.parent_kind == below.c.kind, mark.c.parent_id == below.c.id)
    children = rows.where(is_next).correlate(below).offset(0).lateral("children")
    below = below.union(select(*children.c).select_from(below.join(children, true())))
    return rows.where(is_held(mark, hold)).union(select(*below.c))


def has_many_levels(db: Database) -> ColumnElement[bool]:
    """Return the condition that a mark has more levels of parents than are climbed."""
    mark, up = db.t.mark, _lineage(db)
    has_many = select(literal(1)).select_from(up).offset(PARENT_LEVELS + 1).exists()
    return and_(mark.c.parent_id.is_not(None), _has_two_levels(db), has_many)


def _lineage(db: Database) -> CTE:
    """Return a mark and its ancestors, level by level. UNION ends a circle of parents."""
    mark, child, gone = db.t.mark, db.t.mark.alias("child"), db.t.mark_history.alias("gone")
    up = select(mark.c.instance, mark.c.kind, mark.c.id).correlate(mark).cte("up", recursive=True, nesting=True)
    kind, id_ = (func.coalesce(child.c[column], gone.c[column]) for column in ("parent_kind", "parent_id"))
    climbed = select(up.c.instance, kind, id_).where(id_.is_not(None))
    for table in (child, gone):
        is_same = and_(table.c.instance == up.c.instance, table.c.kind == up.c.kind, table.c.id == up.c.id)
        climbed = climbed.join(table, is_same, isouter=True)
    return up.union(climbed.select_from(up))


def _has_two_levels(db: Database) -> ColumnElement[bool]:
    """Return the condition that the parent of a mark has a parent itself: few do, and this is quicker than climbing."""
    mark = db.t.mark
    found: list[ColumnElement[bool]] = []
    for parent in (mark.alias("child"), db.t.mark_history.alias("gone")):
        is_parent = and_(parent.c.kind == mark.c.parent_kind, parent.c.id == mark.c.parent_id)
        # PostgreSQL must look up each parent by its key: not read the rows with a parent, nor all rows to hash them.
        has_parent = func.coalesce(parent.c.parent_id, parent.c.parent_kind).is_not(None)
        row = select(literal(1)).select_from(parent).where(parent.c.instance == mark.c.instance, is_parent, has_parent)
        found.append(row.correlate(mark).offset(0).exists())
    return or_(*found)


def has_prefix_under(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark's prefix is under that of the hold."""
    mark, prefix = db.t.mark, str(hold.prefix)
    return and_(mark.c.vault == hold.vault, func.substr(mark.c.prefix, 1, len(prefix)) == prefix)


def has_prefix_above(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark's prefix covers that of the hold, so that some of its files may be under it."""
    mark = db.t.mark
    return and_(mark.c.vault == hold.vault, mark.c.prefix.in_(covering_prefixes(str(hold.prefix))))
