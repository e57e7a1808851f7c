"""Decide in SQL which marks a hold blocks, as far as the marks' rows show it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, literal, or_, select, true, tuple_

from sexton.database.engine import Database


def in_force(db: Database, c: Connection, instance: str) -> Mapping[int, ColumnElement[bool]]:
    """Return the holds of an instance that are in force, each with the condition that it blocks a mark."""
    t = db.t.hold
    active = and_(t.c.instance == instance, t.c.released_at.is_(None), t.c.expires_at > db.now(c))
    return {row.id: names(db, row) for row in c.execute(select(t).where(active).order_by(t.c.id))}


def names(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a hold, a value or a row, blocks a mark of its instance, as far as its row shows it.

    A prefix hold may also block a mark whose prefix is above it: that depends on the files there.
    """
    if hold.scope == "instance":
        return true()
    return is_or_descends_from(db, hold) if hold.scope == "mark" else _names_prefix(db, hold)


def is_held(table: Table, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a row is the mark that the hold names."""
    return and_(table.c.instance == hold.instance, and_(table.c.id == hold.mark_id, table.c.kind == hold.mark_kind))


def is_or_descends_from(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark is the one that the hold names, or one of its descendants."""
    mark = db.t.mark
    return or_(is_held(mark, hold), tuple_(mark.c.kind, mark.c.id).in_(_descendants(db, hold)))


def has_prefix_under(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark's prefix is under that of the hold."""
    mark, prefix = db.t.mark, str(hold.prefix)
    return and_(mark.c.vault == hold.vault, func.substr(mark.c.prefix, 1, len(prefix)) == prefix)


def _descendants(db: Database, hold: Any) -> Select[Any]:
    """Select the descendants of the mark that the hold names. UNION ends a circle of parents."""
    mark = db.t.mark
    of_instance = mark.c.instance == hold.instance
    is_child = and_(of_instance, mark.c.parent_kind == hold.mark_kind, mark.c.parent_id == hold.mark_id)
    below = select(mark.c.kind, mark.c.id).where(is_child).cte(f"below_{hold.id}", recursive=True)
    is_grandchild = and_(of_instance, mark.c.parent_kind == below.c.kind, mark.c.parent_id == below.c.id)
    below = below.union(select(mark.c.kind, mark.c.id).where(is_grandchild))
    return select(below.c.kind, below.c.id)


def _names_prefix(db: Database, hold: Any) -> ColumnElement[bool]:
    """Return the condition that a mark's prefix, or one of its keys, is under the prefix of the hold."""
    mark, prefix = db.t.mark, str(hold.prefix)
    if db.dialect == "postgresql":
        key: Any = func.jsonb_array_elements_text(mark.c["keys"]).column_valued("key")
    else:
        key = func.json_each(mark.c["keys"]).table_valued("value").c.value
    has_key = select(literal(1)).where(func.substr(key, 1, len(prefix)) == prefix).correlate(mark).exists()
    return or_(has_prefix_under(db, hold), and_(mark.c.vault == hold.vault, has_key))
