"""Decide which instances are due for a check, a few at a time."""

from sqlalchemy import and_, exists, func, or_, select

from sexton.check.model import RunState
from sexton.database.engine import Database

AT_ONCE = 4
"""Checks that run at the same time in one deployment."""
STALE_MS = 2 * 86_400_000
"""A run that has not ended after this long was cut off, and no longer counts as running."""


class CheckSchedule:
    """The instances that have a vault, the one whose last check is oldest first."""

    def __init__(self, db: Database, interval_seconds: int, *, enabled: bool = True) -> None:
        self._db, self._interval_ms, self._enabled = db, interval_seconds * 1000, enabled

    def due(self) -> tuple[str, ...]:
        """Return the instances whose check should start now, as many as may run beside those that run."""
        if not self._enabled:
            return ()
        run, vault, instance = self._db.t.check_run, self._db.t.vault, self._db.t.instance
        with self._db.read() as c:
            now = self._db.now(c)
            is_running = and_(run.c.state == RunState.RUNNING, run.c.cutoff > now - STALE_MS)
            busy = set(c.execute(select(run.c.instance).where(is_running).distinct()).scalars())
            last_cutoff = select(func.max(run.c.cutoff)).where(run.c.instance == instance.c.id).scalar_subquery()
            due = c.execute(
                select(instance.c.id)
                .where(exists().where(vault.c.instance == instance.c.id))
                .where(or_(last_cutoff.is_(None), last_cutoff <= now - self._interval_ms, last_cutoff > now))
                .order_by(last_cutoff.is_not(None), last_cutoff, instance.c.id)
            ).scalars()
            ready = [name for name in due if name not in busy]
        return tuple(ready[: max(0, AT_ONCE - len(busy))])
