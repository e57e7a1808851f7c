"""Decide which instances are due for a check, a few at a time."""

from sqlalchemy import and_, exists, func, select

from sexton.check.model import RunState
from sexton.database.engine import Database
from sexton.kernel.live import Live

AT_ONCE = 4
"""Checks that run at the same time in one deployment."""
STALE_MS = 2 * 86_400_000
"""A run that has not ended after this long was cut off, and no longer counts as running."""


class CheckSchedule:
    """The instances that have a vault, the one whose last check is oldest first."""

    def __init__(self, db: Database, interval_seconds: int | Live[int], *, enabled: bool = True) -> None:
        self._db, self._interval_seconds, self._enabled = db, Live.of(interval_seconds), enabled

    def due(self) -> tuple[str, ...]:
        """Return the instances whose check should start now, as many as may run beside those that run."""
        if not self._enabled:
            return ()
        run, vault, instance = self._db.t.check_run, self._db.t.vault, self._db.t.instance
        with self._db.read() as c:
            now = self._db.now(c)
            # The cutoff of a run may be later than now: the clock was ahead at that time.
            is_running = and_(run.c.state == RunState.RUNNING, run.c.cutoff.between(now - STALE_MS, now))
            busy = set(c.execute(select(run.c.instance).where(is_running).distinct()).scalars())
            last_cutoff = select(func.max(run.c.cutoff)).where(run.c.instance == instance.c.id).scalar_subquery()
            rows = c.execute(
                select(instance.c.id, last_cutoff.label("last_cutoff"))
                .where(exists().where(vault.c.instance == instance.c.id))
                .order_by(last_cutoff.is_not(None), last_cutoff, instance.c.id)
            ).all()
        ready = []
        for name, last in rows:
            # Later than now: the clock was ahead at that time.
            if name not in busy and (last is None or last > now or last <= now - self._interval_seconds(name) * 1000):
                ready.append(name)
        return tuple(ready[: max(0, AT_ONCE - len(busy))])
