"""Compare what a peer (a front end) has in memory with the records, both ways: the third side of the triangle.

By ranges of ids: a peer with many sends them in order, one range after another, and each range is compared whole.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, Text, and_, exists, func, select

from sexton.check.model import Compared
from sexton.database.engine import Database
from sexton.database.ranges import within
from sexton.database.rows import as_rows
from sexton.kernel.errors import BadInput
from sexton.operators.registry.store import Registry
from sexton.owners.catalog import parents
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.sql import live_view

NAMED = 100
"""Ids named of each kind of difference; the others are counted."""


def compare(db: Database, instance: str, kind: str, ids: Sequence[str], after: str, until: str) -> Compared:
    """Return what of a range of ids (beyond ``after``, up to ``until``; empty: unbounded) one side has alone.

    Raises:
        BadInput: an id lies outside of the range, or the owner has no records of this kind.
        UnknownInstance: the instance is not registered.
    """
    if outside := [i for i in ids if i <= after or (until and i > until)]:
        raise BadInput(f"{outside[0]!r} is not beyond {after!r} and up to {until!r}")
    with db.snapshot() as c:
        records = _records(db, c, instance, kind, after, until).subquery("records")
        given = as_rows(db, ({"id": i} for i in set(ids)), id=Text())
        mine = select(given.c.id).where(~exists().where(records.c.id == given.c.id))
        theirs = select(records.c.id).where(~exists().where(given.c.id == records.c.id))
        unknown, missing = _first(c, mine), _first(c, theirs)
    return Compared(kind=kind, unknown=unknown[0], unknown_ids=unknown[1], missing=missing[0], missing_ids=missing[1])


def _first(c: Connection, ids: Select[Any]) -> tuple[int, tuple[str, ...]]:
    """Return how many there are, and the first of them."""
    found = ids.distinct().subquery()
    count = int(c.execute(select(func.count()).select_from(found)).scalar_one())
    some = c.execute(select(found.c.id).order_by(found.c.id).limit(NAMED)).scalars() if count else ()
    return count, tuple(some)


def _records(db: Database, c: Connection, instance: str, kind: str, after: str, until: str) -> Select[Any]:
    """Select the ids of the records of a kind that should be known to a peer: what is dropped need not be."""
    if Registry(db).owner(instance) != "catalog":
        view = live_view.find(db, c)
        if view is None:
            raise BadInput(f"the owner shows nothing live: give it a view {live_view.LIVE_VIEW}")
        its = and_(live_view.ours(view, instance), view.c.kind == kind)
        return select(view.c.id.label("id")).where(its, within(view.c.id, after, until)).distinct()
    s = CatalogTransaction(db, c, instance)
    t = s.t
    of = {
        "table": (t.tables.c.id, ~t.tables.c.dropped),
        "index": (t.indexes.c.id, ~t.indexes.c.dropped),
        "partition": (t.partitions.c.id, ~t.partitions.c.dropped),
        "tablet": (t.tablets.c.id, parents.standing(s)),
        "rowset": (t.rowsets.c.id, t.rowsets.c.state == RowsetState.VISIBLE),
    }
    if kind not in of:
        raise BadInput(f"{kind!r} is no kind of record here; one of: {', '.join(of)}")
    column, stands = of[kind]
    return select(column.label("id")).where(s.mine(column), stands, within(column, after, until))
