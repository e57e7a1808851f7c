"""Between rows and values, and the need of tablets in SQL, as ``policy.lowest`` has it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Text,
    and_,
    case,
    func,
    or_,
    select,
    update,
)

from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.replication.replicas.model import Replica


def replica(row: Any) -> Replica:
    """Return the row as a value."""
    return Replica(**row._mapping)


def needs(db: Database, c: Connection, instance: str, tablets: Iterable[str]) -> Mapping[str, int]:
    """Return the first version that one of each tablet's replicas still has to get; a tablet without any is left out.

    One that is dropped needs nothing; where none of the others counts, nothing may go.
    """
    t, now = db.t.replica, db.now(c)
    of = and_(t.c.instance == instance, in_list(db, t.c.tablet, tablets), t.c.dropped.is_(False))
    found = select(t.c.tablet, func.coalesce(func.min(need(t, now)), 0).label("need")).where(of).group_by(t.c.tablet)
    return {row.tablet: row.need for row in c.execute(found)}


def went(db: Database, c: Connection, instance: str, versions: Mapping[str, int]) -> None:
    """Note up to which version something of tablets may be gone from now on, wherever it was.

    Who is to count again must have that much: nobody can give it to him piece by piece.
    """
    if versions:
        t = db.t.replica
        data = [{"tablet": tablet, "version": version} for tablet, version in versions.items()]
        g = as_rows(db, data, tablet=Text(), version=BigInteger())
        mine = and_(t.c.instance == instance, t.c.tablet == g.c.tablet, t.c.gone < g.c.version)
        c.execute(update(t).where(mine).values(gone=g.c.version))


def need(t: FromClause, now: int) -> ColumnElement[int]:
    """Return what a replica needs, NULL where it does not count."""
    nothing = or_(t.c.bad_since.is_not(None), t.c.fresh_until <= now)
    return case((t.c.full_copy != "", None), (nothing, 0), else_=t.c.needs)


def of_tablets(db: Database, c: Connection, instance: str, tablets: Iterable[str]) -> Mapping[str, Sequence[Replica]]:
    """Return the replicas of each tablet."""
    t = db.t.replica
    of = and_(t.c.instance == instance, in_list(db, t.c.tablet, tablets))
    found: dict[str, list[Replica]] = {}
    for row in c.execute(select(t).where(of).order_by(t.c.tablet, t.c.backend)):
        found.setdefault(row.tablet, []).append(replica(row))
    return found


def well(t: FromClause, now: int) -> ColumnElement[bool]:
    """Return what makes a replica one that counts and from which another can be copied."""
    return and_(t.c.full_copy == "", t.c.bad_since.is_(None), t.c.gap_since.is_(None), t.c.fresh_until > now)
