"""Store which Spark workers run, and how busy each is."""

from sqlalchemy import Connection, and_, delete, func, or_, select

from sexton.database.engine import Database
from sexton.database.rows import upsert

ABSENT_MS = 30_000
"""A worker that has not reported for this long is absent. A busy one reports, although it polls for no work."""
FORGET_MS = 86_400_000
"""A worker that has not reported for a day has no row."""


class SparkWorkerStore:
    """The rows of Spark workers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def report(self, worker: str, slots: int, busy: int) -> None:
        """Store that a worker runs, which takes ``slots`` activities at once and runs ``busy`` of them."""
        t = self._db.t.spark_worker
        with self._db.write() as c:
            now = self._now(c)
            values = {"seen_at": now, "slots": slots, "busy": busy}
            row = upsert(self._db, t).values(worker=worker, **values)
            c.execute(row.on_conflict_do_update(index_elements=["worker"], set_=values))
            # A row from the future was written while the database's clock was ahead.
            c.execute(delete(t).where(or_(t.c.seen_at < now - FORGET_MS, t.c.seen_at > now + ABSENT_MS)))

    def remove(self, worker: str) -> None:
        """Remove a worker that ends."""
        t = self._db.t.spark_worker
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.worker == worker))

    def count_slots(self) -> tuple[int, int]:
        """Return how many activities all workers that run take at once, and how many more they would take now."""
        t = self._db.t.spark_worker
        with self._db.read() as c:
            now = self._now(c)
            present = and_(t.c.seen_at > now - ABSENT_MS, t.c.seen_at <= now + ABSENT_MS)
            sums = select(func.coalesce(func.sum(t.c.slots), 0), func.coalesce(func.sum(t.c.slots - t.c.busy), 0))
            slots, free = c.execute(sums.where(present)).one()
        return int(slots), int(free)

    def _now(self, c: Connection) -> int:
        """Return the time without the offset of a trial's clock: a worker that runs must not become absent by it."""
        return self._db.now(c) - 1000 * int(c.execute(select(self._db.t.clock.c.offset_seconds)).scalar_one())
