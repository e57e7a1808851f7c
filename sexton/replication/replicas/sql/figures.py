"""Count replicas by backend: the unhealthy ones, those with binlogs to delete, and those that block others."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select

from sexton.database.engine import Database
from sexton.replication.agent.model import SweepOutcome
from sexton.replication.log_rows import scope_condition
from sexton.replication.replicas.model import BackendStanding, Replica, RetainingReplica
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.rows import needed_version


def backend_standings(
    db: Database, c: Connection, instance: str, name: str = "", table: str = ""
) -> Sequence[BackendStanding]:
    """Return the backends of an instance by name, including those that have never reported.

    ``name``, ``table``: count only replicas of this database or table, and leave out backends without any; empty: all.
    """
    b = db.t.backend
    counted = c.execute(_count_by_backend(db, db.now(c)).where(scope_condition(db.t.replica, instance, name, table)))
    counts = {row.backend: dict(row._mapping) for row in counted}
    instants = select(b.c.name, b.c.reported_at, b.c.pulled_at, b.c.queue_at).where(b.c.instance == instance)
    known = {row.name: dict(row._mapping) for row in c.execute(instants)}
    names = sorted(counts if name else {*counts, *known})
    return [
        BackendStanding(**{"backend": backend} | counts.get(backend, {}) | known.get(backend, {})) for backend in names
    ]


def _count_by_backend(db: Database, now: int) -> Select[Any]:
    """Return the counts of a ``BackendStanding``, grouped by backend."""
    t = db.t.replica
    live = t.c.dropped.is_(False)
    has_problem = and_(live, t.c.problem != "")
    quarantined = and_(has_problem, t.c.problem.startswith(SweepOutcome.QUARANTINED))
    conditions = {
        "bad": and_(live, t.c.bad_since.is_not(None)),
        "missing": and_(live, t.c.gap_since.is_not(None)),
        "silent": and_(live, t.c.fresh_until <= now),
        "full_copy": and_(live, t.c.full_copy != ""),
        "by_limit": and_(live, t.c.full_copy == BY_LIMIT),
        "behind": t.c.desired > t.c.acked,
        "problems": has_problem,
        "quarantined": quarantined,
    }
    counts = [_count(condition).label(column) for column, condition in conditions.items()]
    quarantined_first = (func.min(case((quarantined, t.c.problem))), func.min(case((has_problem, t.c.problem))))
    problem = func.coalesce(*quarantined_first, "").label("problem")
    return select(t.c.backend, func.count().label("copies"), problem, *counts).group_by(t.c.backend)


def retaining_by_backend(
    db: Database, c: Connection, instance: str, name: str = "", table: str = ""
) -> Sequence[RetainingReplica]:
    """Return by backend the replicas for which others retain versions.

    If some tablets have no replica that counts, an entry with an empty backend comes first.
    """
    t, now = db.t.replica, db.now(c)
    live = _copies_of_waiting_tablets(db, instance, name, table)
    bad, missing = t.c.bad_since.is_not(None), and_(t.c.bad_since.is_(None), t.c.gap_since.is_not(None))
    silent = and_(t.c.bad_since.is_(None), t.c.gap_since.is_(None), t.c.fresh_until <= now)
    since = func.coalesce(t.c.bad_since, t.c.gap_since, case((t.c.fresh_until <= now, t.c.fresh_until)))
    counts = [_count(bad).label("bad"), _count(missing).label("missing"), _count(silent).label("silent")]
    by_backend = select(t.c.backend, func.count().label("copies"), *counts, func.min(since).label("since"))
    lacking = by_backend.where(live, needed_version(t, now) <= t.c.desired).group_by(t.c.backend).order_by(t.c.backend)
    retaining = [RetainingReplica(**row._mapping) for row in c.execute(lacking)]
    by_tablet = select(t.c.tablet, func.max(t.c.full_copy_at).label("since")).where(live).group_by(t.c.tablet)
    uncounted = by_tablet.having(_count(t.c.full_copy == "") == 0).subquery()
    row = c.execute(select(func.count().label("copies"), func.min(uncounted.c.since).label("since"))).one()
    no_replica_counts = [RetainingReplica(backend="", **row._mapping)] if row.copies else []
    return [*no_replica_counts, *retaining]


def retaining_replicas(
    db: Database, c: Connection, instance: str, name: str = "", table: str = "", limit: int = 5
) -> Sequence[Replica]:
    """Return a few replicas for which others retain versions, those that need the lowest version first."""
    t, now = db.t.replica, db.now(c)
    live = _copies_of_waiting_tablets(db, instance, name, table)
    lacking = select(t).where(live, needed_version(t, now) <= t.c.desired)
    return [
        Replica(**row._mapping)
        for row in c.execute(lacking.order_by(needed_version(t, now), t.c.tablet, t.c.backend).limit(limit))
    ]


def _copies_of_waiting_tablets(db: Database, instance: str, name: str, table: str) -> ColumnElement[bool]:
    """Return the condition that a tablet has a replica whose backend was not granted all that should be deleted."""
    t, due = db.t.replica, db.t.replica.alias("due")
    # The first condition is the one with an index; a replica to which everything was granted waits for no other.
    waiting = and_(due.c.desired > due.c.acked, due.c.desired > due.c.granted, due.c.dropped.is_(False))
    tablets = select(due.c.tablet).where(scope_condition(due, instance, name, table), waiting)
    return and_(t.c.instance == instance, t.c.dropped.is_(False), t.c.tablet.in_(tablets))


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)
