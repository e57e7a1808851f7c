"""Which protections cover what a mark stands for: for people who ask. Claims ask ``sexton.protection.sql.keeper``."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, and_, false, or_, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.model import Place
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import Protection
from sexton.protection.sql.rows import protection

KEYS_ASKED = 100
"""Keys of one mark that are asked about."""
TOLD = 20
LAST = "\U0010ffff"


def covering(db: Database, instance: str, places: Iterable[Place]) -> Sequence[Protection]:
    """Return protections that cover a key of the places, or anything below a prefix of them; the oldest first.

    A filter that cannot be read may cover anything; one that can is asked about keys, and may cover what is below a
    prefix.
    """
    t, item = db.t.protection, db.t.protection_item
    asked = [p if p.keys is None else p.model_copy(update={"keys": p.keys[:KEYS_ASKED]}) for p in places]
    named = or_(false(), *(_names(db, place) for place in asked))
    its = select(item.c.protection).where(item.c.instance == instance, named)
    wanted = select(t).where(t.c.instance == instance, or_(t.c.id.in_(its), t.c.filter.is_not(None)))
    with db.read() as c:
        rows = c.execute(wanted.order_by(t.c.id).limit(TOLD)).all()
    return [protection(row) for row in rows if row.filter is None or _may(row.filter, asked)]


def _names(db: Database, place: Place) -> ColumnElement[bool]:
    item = db.t.protection_item
    here = item.c.vault == place.vault
    if place.prefix is not None:
        below = item.c.key.between(place.prefix, place.prefix + LAST)
        return and_(here, or_(below, and_(item.c.prefix, in_list(db, item.c.key, _beginnings([place.prefix])))))
    keys = place.keys or ()
    exact = and_(item.c.prefix.is_(False), in_list(db, item.c.key, keys))
    return and_(here, or_(exact, and_(item.c.prefix, in_list(db, item.c.key, _beginnings(keys)))))


def _beginnings(keys: Iterable[str]) -> list[str]:
    return sorted({key[:n] for key in keys for n in range(1, len(key) + 1)})


def _may(data: bytes, places: Sequence[Place]) -> bool:
    try:
        filter_ = Filter.parse(data)
    except Invalid:
        return True
    return any(p.keys is None or any(filter_.covers(p.vault, key) for key in p.keys) for p in places)
