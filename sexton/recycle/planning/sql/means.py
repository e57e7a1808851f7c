"""Estimate how many objects are under a prefix, from those that rounds have deleted before."""

from sqlalchemy import Connection, and_, func, select

from sexton.database.engine import Database
from sexton.marks.sql.rows import CLAIMED
from sexton.recycle.planning.limits import ASSUMED_OBJECTS

SAMPLE_ROWS = 1_000
"""The newest rows from which the number of objects under a prefix is estimated."""


class MeanObjects:
    """Mean numbers of objects of one instance's marks, by kind, read in one transaction."""

    def __init__(self, db: Database, c: Connection, instance: str) -> None:
        self._db, self._c, self._instance = db, c, instance
        self._recent_means: dict[str, float | None] | None = None

    def of(self, kind: str) -> float:
        """Return how many objects one recent mark of the kind had, of marks that named no keys."""
        mean = self._known(kind)
        return ASSUMED_OBJECTS if mean is None else mean

    def knows(self, kind: str) -> bool:
        """Return whether a round has deleted marks of the kind before, so that ``of`` is no mere assumption."""
        return self._known(kind) is not None

    def _known(self, kind: str) -> float | None:
        if self._recent_means is None:
            # Marks that wait for their second pass are all there is to learn from on the first days.
            self._recent_means = {**self._means_of_second_passes(), **self._means_of_history()}
        if kind not in self._recent_means:  # the newest history rows are all of other kinds
            self._recent_means[kind] = self._mean_of_rounds(kind)
        return self._recent_means[kind]

    def _means_of_history(self) -> dict[str, float]:
        """Return the mean number of objects by kind, of the newest rows of history."""
        history = self._db.t.mark_history
        newest = (
            select(history.c.kind, history.c.objects, history.c["keys"].label("named"))
            .where(history.c.instance == self._instance, history.c.absorbed.is_(False), history.c.discarded.is_(None))
            .order_by(history.c.gone_at.desc())
            .limit(SAMPLE_ROWS)
            .subquery()
        )
        means = select(newest.c.kind, func.avg(newest.c.objects)).where(newest.c.named.is_(None))
        return {kind: float(mean) for kind, mean in self._c.execute(means.group_by(newest.c.kind))}

    def _means_of_second_passes(self) -> dict[str, float]:
        """Return the mean number of objects by kind, of marks that wait for their second pass."""
        mark = self._db.t.mark
        cleared = (
            select(mark.c.kind, mark.c.objects_gone)
            .where(mark.c.instance == self._instance, mark.c.state == CLAIMED, mark.c.first_pass_at.is_not(None))
            .where(mark.c["keys"].is_(None))
            .limit(SAMPLE_ROWS)
            .subquery()
        )
        means = select(cleared.c.kind, func.avg(cleared.c.objects_gone)).group_by(cleared.c.kind)
        return {kind: float(mean) for kind, mean in self._c.execute(means)}

    def _mean_of_rounds(self, kind: str) -> float | None:
        """Return how many objects a mark of the kind had, by the tallies of rounds; None: no round removed one."""
        tally, round_ = self._db.t.tally, self._db.t.round
        of_instance = and_(round_.c.id == tally.c.round, round_.c.instance == self._instance)
        objects = tally.c.deleted + tally.c.absent + tally.c.hidden
        tallies = select(tally.c.removed, objects.label("objects")).join(round_, of_instance)
        tallies = tallies.where(tally.c.kind == kind, tally.c.removed > 0)
        recent = tallies.order_by(tally.c.round.desc()).limit(SAMPLE_ROWS).subquery()
        sums = select(func.sum(recent.c.objects).label("objects"), func.sum(recent.c.removed).label("removed"))
        row = self._c.execute(sums).one()
        return float(row.objects) / float(row.removed) if row.removed else None
