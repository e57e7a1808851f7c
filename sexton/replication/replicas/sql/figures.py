"""Copies of tablets in numbers, by backend: what is wrong with them, what they have still to let go, who keeps it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from sexton.database.engine import Database
from sexton.replication.agent.model import SweepOutcome
from sexton.replication.replicas.model import Backend, BackendStanding, Replica, RetainingReplica
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.rows import need, replica


def standings(db: Database, c: Connection, instance: str, name: str = "", table: str = "") -> Sequence[BackendStanding]:
    """Return the backends of an instance by name, those too that have never reported.

    Args:
        db: the database.
        c: a transaction.
        instance: whose copies.
        name: count only copies of this database; then backends without any are left out. Empty: all.
        table: count only copies of this table; empty: all.
    """
    t, b, now = db.t.replica, db.t.backend, db.now(c)
    live = t.c.dropped.is_(False)
    unread = and_(live, t.c.problem != "")
    counted = {
        "bad": and_(live, t.c.bad_since.is_not(None)),
        "missing": and_(live, t.c.gap_since.is_not(None)),
        "silent": and_(live, t.c.fresh_until <= now),
        "full_copy": and_(live, t.c.full_copy != ""),
        "by_limit": and_(live, t.c.full_copy == BY_LIMIT),
        "behind": t.c.desired > t.c.acked,
        "problems": unread,
        "quarantined": (apart := and_(unread, t.c.problem.startswith(SweepOutcome.QUARANTINED))),
    }
    told = func.min(case((apart, t.c.problem))), func.min(case((unread, t.c.problem)))
    one = func.coalesce(*told, "").label("problem")
    numbers = [_count(of).label(what) for what, of in counted.items()]
    asked = select(t.c.backend, func.count().label("copies"), one, *numbers).where(_of(t, instance, name, table))
    found = {row.backend: dict(row._mapping) for row in c.execute(asked.group_by(t.c.backend))}
    known = {row.name: Backend(**row._mapping) for row in c.execute(select(b).where(b.c.instance == instance))}
    names = sorted(found if name else {*found, *known})
    seen = {"reported_at", "pulled_at", "queue_at"}
    return [
        BackendStanding(**{"backend": n} | found.get(n, {}) | (known[n].model_dump(include=seen) if n in known else {}))
        for n in names
    ]


def holders(db: Database, c: Connection, instance: str, name: str = "", table: str = "") -> Sequence[RetainingReplica]:
    """Return for whose copies others keep what should go, by backend; first, if there is one, for nobody's."""
    t, now = db.t.replica, db.now(c)
    live, due = _live(t, instance), _due(db, instance, name, table)
    bad, missing = t.c.bad_since.is_not(None), and_(t.c.bad_since.is_(None), t.c.gap_since.is_not(None))
    silent = and_(t.c.bad_since.is_(None), t.c.gap_since.is_(None), t.c.fresh_until <= now)
    since = func.coalesce(t.c.bad_since, t.c.gap_since, case((t.c.fresh_until <= now, t.c.fresh_until)))
    sums = [_count(bad).label("bad"), _count(missing).label("missing"), _count(silent).label("silent")]
    asked = select(t.c.backend, func.count().label("copies"), *sums, func.min(since).label("since"))
    lacks = asked.where(live, t.c.tablet.in_(due), need(t, now) <= t.c.desired).group_by(t.c.backend)
    found = [RetainingReplica(**row._mapping) for row in c.execute(lacks.order_by(t.c.backend))]
    alone = select(t.c.tablet, func.max(t.c.full_copy_at).label("since")).where(live, t.c.tablet.in_(due))
    each = alone.group_by(t.c.tablet).having(_count(t.c.full_copy == "") == 0).subquery()
    nobody = c.execute(select(func.count().label("copies"), func.min(each.c.since).label("since"))).one()
    return [*([RetainingReplica(backend="", **nobody._mapping)] if nobody.copies else []), *found]


def holding(
    db: Database, c: Connection, instance: str, name: str = "", table: str = "", limit: int = 5
) -> Sequence[Replica]:
    """Return a few copies for which others keep what should go, those that need the most first."""
    t, now = db.t.replica, db.now(c)
    lacks = and_(_live(t, instance), t.c.tablet.in_(_due(db, instance, name, table)), need(t, now) <= t.c.desired)
    asked = select(t).where(lacks).order_by(need(t, now), t.c.tablet, t.c.backend).limit(limit)
    return [replica(row) for row in c.execute(asked)]


def copies(db: Database, c: Connection, instance: str, name: str, table: str = "") -> int:
    """Return how many copies there are of the tablets of a database, or of a table of it."""
    t = db.t.replica
    asked = select(func.count()).select_from(t).where(_of(t, instance, name, table), t.c.dropped.is_(False))
    return int(c.execute(asked).scalar_one())


def _of(t: Any, instance: str, name: str, table: str) -> ColumnElement[bool]:
    of = [t.c.db == name] if name else []
    return and_(t.c.instance == instance, *of, *([t.c.tbl == table] if table else []))


def _live(t: Any, instance: str) -> ColumnElement[bool]:
    return and_(t.c.instance == instance, t.c.dropped.is_(False))


def _due(db: Database, instance: str, name: str, table: str) -> Any:
    """Return the tablets of which a copy was not granted all that should go."""
    t = db.t.replica.alias("due")
    # The first is what there is an index for; whoever was granted all of it keeps nothing for anybody.
    open_ = and_(t.c.desired > t.c.acked, t.c.desired > t.c.granted, t.c.dropped.is_(False))
    return select(t.c.tablet).where(_of(t, instance, name, table), open_)


def _count(of: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((of, 1), else_=0)), 0)
