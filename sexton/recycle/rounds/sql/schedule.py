"""Decide which instances have their next round now, as many as there are free slots."""

from typing import Any

from sqlalchemy import and_, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.live import Live
from sexton.marks.sql.leases import busy
from sexton.operators.controls.policy import halt_by_instance
from sexton.operators.controls.store import ControlStore
from sexton.recycle.model import JOB
from sexton.recycle.rounds.model import DueInstances
from sexton.recycle.rounds.policy import next_round

SPARE = 100
"""Instances returned beyond the free slots."""


class RoundSchedule:
    """Finds due instances, the one that waited longest first."""

    def __init__(self, db: Database, controls: ControlStore, interval_seconds: int | Live[int], at_once: int) -> None:
        self._db = db
        self._controls = controls
        self._interval_seconds = Live.of(interval_seconds)
        self._at_once = at_once

    def due(self) -> DueInstances:
        """Return the instances whose round should start now, and how many may start.

        More are returned than may start. A paused round has no lease, so it occupies no slot here, and its workflow id
        prevents a second start. Instances with such rounds come last: otherwise a few of them would block the others.
        """
        t = self._db.t
        lease, instance, round_ = t.lease, t.instance, t.round
        with self._db.read() as c:
            now = self._db.now(c)
            working = set(c.execute(select(lease.c.instance).where(busy(lease, JOB))).scalars())
            free = self._at_once - len(working)
            if free <= 0:
                return DueInstances()
            rows = c.execute(
                select(instance.c.id, instance.c.turn_at, instance.c.retry_at).order_by(
                    instance.c.turn_at.is_not(None), instance.c.turn_at, instance.c.id
                )
            ).all()
            halted = halt_by_instance(self._controls.all_in(c), now)
        due = (r.id for r in rows if next_round(r.turn_at, r.retry_at, self._interval_ms(r.id), now) <= now)
        ready = [i for i in due if i not in working and halted(i) is None]
        with self._db.read() as c:
            is_waiting = and_(in_list(round_.c.instance, ready), round_.c.waiting.is_not(None))
            waiting = set(c.execute(select(round_.c.instance).where(is_waiting)).scalars()) if ready else set()
        ready.sort(key=lambda i: i in waiting)
        return DueInstances(instances=tuple(ready[: free + SPARE]), slots=free)

    def next_round(self, instance: str) -> int:
        """Return when the instance has its next round (ms since 1970; in the past: as soon as a slot is free)."""
        t = self._db.t.instance
        with self._db.read() as c:
            return self.next_round_of(c.execute(select(t).where(t.c.id == instance)).one(), self._db.now(c))

    def next_round_of(self, row: Any, now: int) -> int:
        """Return the same of a row of ``instance``, at ``now`` (ms since 1970)."""
        return next_round(row.turn_at, row.retry_at, self._interval_ms(row.id), now)

    def _interval_ms(self, instance: str) -> int:
        return self._interval_seconds(instance) * 1000
