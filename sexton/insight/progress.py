"""Read how far a running round is, from rows that change with each page of a listing or of deletes."""

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database
from sexton.insight.views import KindCounts, RoundCounts
from sexton.recycle.planning.model import Plan

NOTHING = RoundCounts()


def round_progress(db: Database, round_: int) -> RoundCounts:
    """Return how far a round is; empty where the database does not answer: only people wait for it."""
    try:
        with db.read() as c:
            return read_progress(db, c, round_)
    except SQLAlchemyError:
        return NOTHING


def read_progress(db: Database, c: Connection, round_: int) -> RoundCounts:
    """Return what a round has listed and deleted so far, by kind, and what its plan expects."""
    t, plan = db.t.round, db.t.plan
    with_plan = select(t.c.started_at, plan.c.body).outerjoin(plan, plan.c.id == t.c.plan).where(t.c.id == round_)
    row = c.execute(with_plan).one_or_none()
    if row is None:
        return NOTHING
    planned = {k.kind: k for k in Plan.model_validate(row.body).kinds} if row.body else {}
    counted = _tallies(db, c, round_)
    kinds = []
    for kind in sorted(planned.keys() | counted.keys()):
        counts = counted.get(kind, KindCounts(kind=kind))
        if kind in planned:
            update = {"due": planned[kind].marks, "planned": planned[kind].unheld.objects}
            counts = counts.model_copy(update=update | {"estimated": planned[kind].estimated})
        kinds.append(counts)
    return RoundCounts(kinds=tuple(kinds), elapsed_ms=max(0, db.now(c) - row.started_at))


def _tallies(db: Database, c: Connection, round_: int) -> dict[str, KindCounts]:
    t = db.t.tally
    sums = [func.sum(t.c[name]).label(name) for name in ("claimed", "removed", "listed")]
    objects = func.sum(t.c.deleted + t.c.absent + t.c.hidden).label("objects")
    rows = c.execute(select(t.c.kind, *sums, objects).where(t.c.round == round_).group_by(t.c.kind))
    return {row.kind: KindCounts(**row._mapping) for row in rows}
