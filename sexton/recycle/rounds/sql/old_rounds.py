"""Delete the rows of rounds and plans that are too old: as long ago as the oldest calls of the call log."""

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.model import BatchState, MarkState
from sexton.recycle.planning.model import PlanState

ROUND_DAYS = 400
PAGE_ROUNDS = 100
MOST_PAGES = 50
"""A round deletes the rows of at most this many pages; the next round continues."""


class OldRounds:
    """Rows of ``round``, with the batches, files, claims and tallies of each, and rows of ``plan``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def forget(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Delete the rounds that ended more than ``ROUND_DAYS`` ago, and the plans made before that.

        These stay: the newest round and plan, rounds whose batches are unfinished, and plans of rounds that stay. So do
        the last round that we know a vault's marker to name and all later ones: a vault whose marker names an unknown
        round would be taken for that of a newer database.

        ``heartbeat``: called between two pages.
        """
        for forget_page in (self._forget_rounds, self._forget_plans):
            after: int | None = 0
            for _ in range(MOST_PAGES):
                heartbeat()
                after = forget_page(instance, after or 0)
                if after is None:
                    break

    def _forget_rounds(self, instance: str, after: int) -> int | None:
        """Delete what can be deleted of the next page of rounds; return its last number, None: the rest is newer."""
        t = self._db.t
        with self._db.write() as c:
            oldest = select(t.round.c.id, t.round.c.ended_at).where(t.round.c.instance == instance)
            page = c.execute(oldest.where(t.round.c.id > after).order_by(t.round.c.id).limit(PAGE_ROUNDS)).all()
            edge = self._edge(c)
            old = [row.id for row in page if row.ended_at is not None and row.ended_at < edge]
            if old:
                self._delete(c, sorted({*old} - self._needed(c, instance, old)))
            is_last = len(page) < PAGE_ROUNDS or not old
        return None if is_last else page[-1].id

    def _needed(self, c: Connection, instance: str, rounds: Sequence[int]) -> set[int]:
        """Return which of these rounds something still needs."""
        t = self._db.t
        newest = select(func.max(t.round.c.id)).where(t.round.c.instance == instance)
        vault = and_(t.vault.c.instance == instance, t.vault.c.announced_round > 0)
        announced = c.execute(select(func.min(t.vault.c.announced_round)).where(vault)).scalar_one()
        batches = select(t.batch.c.round).where(in_list(t.batch.c.round, rounds))
        is_open = t.batch.c.state == BatchState.OPEN
        has_claimed_marks = exists().where(
            t.mark.c.instance == instance, t.mark.c.state == MarkState.CLAIMED, t.mark.c.batch == t.batch.c.id
        )
        queries = newest, batches.where(is_open), batches.where(has_claimed_marks)
        needed = {round_ for query in queries for round_ in c.execute(query).scalars()}
        return needed | {round_ for round_ in rounds if announced is not None and round_ >= announced}

    def _delete(self, c: Connection, rounds: Sequence[int]) -> None:
        """Delete the rows of rounds; each row of another table before the row it names."""
        t = self._db.t
        batches = list(c.execute(select(t.batch.c.id).where(in_list(t.batch.c.round, rounds))).scalars())
        for column, ids in (
            (t.file_list.c.batch, batches),
            (t.batch.c.id, batches),
            (t.claim.c.round, rounds),
            (t.tally.c.round, rounds),
            (t.round.c.id, rounds),
        ):
            if ids:
                c.execute(delete(column.table).where(in_list(column, ids)))

    def _forget_plans(self, instance: str, after: int) -> int | None:
        """Delete what can be deleted of the next page of plans; return its last number, None: the rest is newer."""
        plan = self._db.t.plan
        with self._db.write() as c:
            oldest = select(plan.c.id, plan.c.created_at).where(plan.c.instance == instance, plan.c.id > after)
            page = c.execute(oldest.order_by(plan.c.id).limit(PAGE_ROUNDS)).all()
            edge = self._edge(c)
            old = [row.id for row in page if row.created_at < edge]
            if old:
                c.execute(delete(plan).where(in_list(plan.c.id, old), self._is_unneeded_plan(instance)))
            is_last = len(page) < PAGE_ROUNDS or not old
        return None if is_last else page[-1].id

    def _is_unneeded_plan(self, instance: str) -> ColumnElement[bool]:
        plan, round_ = self._db.t.plan, self._db.t.round
        other = plan.alias()
        newest = select(func.max(other.c.id)).where(other.c.instance == instance).scalar_subquery()
        is_of_round = exists().where(round_.c.plan == plan.c.id)
        return and_(plan.c.state != PlanState.APPLYING, plan.c.id != newest, ~is_of_round)

    def _edge(self, c: Connection) -> int:
        return self._db.now(c) - ROUND_DAYS * 86_400_000
