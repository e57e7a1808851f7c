"""Whose check is due: instances by their last one, a few at a time."""

from sqlalchemy import and_, exists, func, or_, select

from sexton.check.model import RunState
from sexton.database.engine import Database

AT_ONCE = 4
"""Checks under way at the same time in one deployment."""
STALE_MS = 2 * 86_400_000
"""A run that has not ended for so long was cut off; nobody waits for it."""


class CheckSchedule:
    """Instances with a vault, the one that waited longest first."""

    def __init__(self, db: Database, interval_seconds: int, *, enabled: bool = True) -> None:
        self._db, self._interval_ms, self._enabled = db, interval_seconds * 1000, enabled

    def due(self) -> tuple[str, ...]:
        """Return the instances whose check should start now, as many as may."""
        if not self._enabled:
            return ()
        run, vault, instance = self._db.t.check_run, self._db.t.vault, self._db.t.instance
        with self._db.read() as c:
            now = self._db.now(c)
            working = and_(run.c.state == RunState.RUNNING, run.c.cutoff > now - STALE_MS)
            busy = set(c.execute(select(run.c.instance).where(working).distinct()).scalars())
            last = select(func.max(run.c.cutoff)).where(run.c.instance == instance.c.id).scalar_subquery()
            waited = c.execute(
                select(instance.c.id)
                .where(exists().where(vault.c.instance == instance.c.id))
                .where(or_(last.is_(None), last <= now - self._interval_ms, last > now))
                .order_by(last.is_not(None), last, instance.c.id)
            ).scalars()
            ready = [i for i in waited if i not in busy]
        return tuple(ready[: max(0, AT_ONCE - len(busy))])
