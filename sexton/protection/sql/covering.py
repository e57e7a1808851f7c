"""Find the protections that cover a mark's files, for people. Claims use ``sexton.protection.sql.keeper``."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, and_, false, or_, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.model import Place
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import Protection

MAX_KEYS = 100
"""Keys of one mark that are looked up."""
MAX_PROTECTIONS = 20
"""Protections that are returned at most."""
LAST_CHARACTER = "\U0010ffff"


def covering(db: Database, instance: str, places: Iterable[Place]) -> Sequence[Protection]:
    """Return protections that cover a key of the places, or anything under a prefix of them; the oldest first.

    An unreadable filter may cover anything. A readable filter is tested with the keys, and may cover any prefix.
    """
    t, item = db.t.protection, db.t.protection_item
    queried = [p if p.keys is None else p._replace(keys=p.keys[:MAX_KEYS]) for p in places]
    is_covering = or_(false(), *(_covers(db, place) for place in queried))
    ids = select(item.c.protection).where(item.c.instance == instance, is_covering)
    query = select(t).where(t.c.instance == instance, or_(t.c.id.in_(ids), t.c.filter.is_not(None)))
    with db.read() as c:
        rows = c.execute(query.order_by(t.c.id).limit(MAX_PROTECTIONS)).all()
    return [Protection(**row._mapping) for row in rows if row.filter is None or _may_cover(row.filter, queried)]


def _covers(db: Database, place: Place) -> ColumnElement[bool]:
    """Return the condition that a registered item covers a key of the place, or anything under its prefix."""
    item = db.t.protection_item
    is_in_vault = item.c.vault == place.vault
    if place.prefix is not None:
        # Not BETWEEN, whose bounds may have no COLLATE.
        is_under = and_(item.c.key >= place.prefix, item.c.key <= place.prefix + LAST_CHARACTER)
        is_above = and_(item.c.prefix, in_list(item.c.key, _beginnings([place.prefix])))
        return and_(is_in_vault, or_(is_under, is_above))
    keys = place.keys or ()
    is_exact = and_(item.c.prefix.is_(False), in_list(item.c.key, keys))
    return and_(is_in_vault, or_(is_exact, and_(item.c.prefix, in_list(item.c.key, _beginnings(keys)))))


def _beginnings(keys: Iterable[str]) -> list[str]:
    return sorted({key[:length] for key in keys for length in range(1, len(key) + 1)})


def _may_cover(data: bytes, places: Sequence[Place]) -> bool:
    try:
        filter_ = Filter.parse(data)
    except Invalid:
        return True
    return any(place.keys is None or any(filter_.covers(place.vault, key) for key in place.keys) for place in places)
