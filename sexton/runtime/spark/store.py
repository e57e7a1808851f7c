"""Store which Spark workers run, and how busy each is."""

from sqlalchemy import delete, or_
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.insight.spark_slots import ABSENT_MS, read_slots

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
            now = self._db.machine_now(c)
            values = {"seen_at": now, "slots": slots, "busy": busy}
            row = upsert(t).values(worker=worker, **values)
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
        with self._db.read() as c:
            present = read_slots(self._db, c)
        return present.slots, present.slots - present.busy
