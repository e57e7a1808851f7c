"""Read which Spark workers run, and how busy they are."""

from typing import NamedTuple

from sqlalchemy import Connection, and_, func, select

from sexton.database.engine import Database

SPARK = "spark"
"""The role of a worker that runs activities on Spark."""
ABSENT_MS = 30_000
"""A worker that has not reported for this long is absent. A busy one reports, although it polls for no work."""


class SparkSlots(NamedTuple):
    """All Spark workers that run: how many, how many activities they take at once, and how many they run."""

    workers: int = 0
    slots: int = 0
    busy: int = 0


def read_slots(db: Database, c: Connection) -> SparkSlots:
    """Return the workers that run, and their slots."""
    t, now = db.t.worker_presence, db.machine_now(c)
    present = and_(t.c.role == SPARK, t.c.seen_at > now - ABSENT_MS, t.c.seen_at <= now + ABSENT_MS)
    sums = (func.coalesce(func.sum(n), 0) for n in (t.c.slots, t.c.busy))
    return SparkSlots(*(int(n) for n in c.execute(select(func.count(), *sums).where(present)).one()))
