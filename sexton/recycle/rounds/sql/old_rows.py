"""Delete rows that are too old, a page in each transaction: history, rounds and plans.

Rounds and plans stay as long as the oldest calls of the call log.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, FromClause, and_, delete, exists, func, or_, select

from sexton.database.engine import Database
from sexton.database.rows import beyond, in_list
from sexton.marks.model import BatchState, MarkState, Ref
from sexton.marks.sql.rows import refs_in
from sexton.recycle.model import DAY_MS
from sexton.recycle.planning.model import PlanState

HISTORY_DAYS = 30
PAGE_ROWS = 5_000
MOST_SECONDS = 60.0
"""A round spends at most this long on history; the next round continues."""
ROUND_DAYS = 400
PAGE_ROUNDS = 100
MOST_PAGES = 50
"""A round deletes the rows of at most this many pages of rounds; the next round continues."""


class OldRows:
    """Rows of ``mark_history``, of ``plan``, and of ``round`` with the batches, files, claims and tallies of each."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def forget_history(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Delete history rows older than ``HISTORY_DAYS``, except those that a mark or its child still needs.

        ``heartbeat``: called between two pages.
        """
        mark, history = self._db.t.mark, self._db.t.mark_history
        columns = (history.c.gone_at, history.c.kind, history.c.id)

        def exist(child: FromClause, parent: FromClause) -> ColumnElement[bool]:
            is_child = and_(child.c.parent_kind == parent.c.kind, child.c.parent_id == parent.c.id)
            return exists().where(child.c.instance == parent.c.instance, is_child)

        # A hold on an ancestor must reach a child that still exists; the rows of a chain are deleted from below. The
        # undrop of a parent that is still marked must see that a child is gone.
        is_needed = or_(exist(mark, history), exist(history.alias(), history), exist(history, mark))
        # A mark was discarded while another one existed that is still here: that one may be of another parent, which
        # must not mark the discarded object again. Only its owner knows.
        oldest = select(func.min(mark.c.marked_at)).where(mark.c.instance == instance).scalar_subquery()
        is_older_decision = and_(history.c.discarded.is_not(None), func.coalesce(history.c.gone_at >= oldest, False))
        until = time.monotonic() + MOST_SECONDS
        after: Any = None
        while time.monotonic() < until:
            heartbeat()
            with self._db.write() as tx:
                edge = self._db.now(tx) - HISTORY_DAYS * DAY_MS
                old = select(*columns).where(history.c.instance == instance, history.c.gone_at < edge)
                if after is not None:
                    old = old.where(beyond(columns, after))
                rows = tx.execute(old.order_by(*columns).limit(PAGE_ROWS)).all()
                if not rows:
                    return
                of_page = refs_in(history, [Ref(row.kind, row.id) for row in rows])
                of_page &= history.c.instance == instance
                tx.execute(delete(history).where(of_page, ~is_needed, ~is_older_decision))
            after = rows[-1]

    def forget_rounds(self, instance: str, heartbeat: Callable[[], None]) -> None:
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
        with self._db.write() as c:
            old, last = self._read_page(c, self._db.t.round.c.ended_at, instance, after)
            if old:
                t = self._db.t
                rounds = sorted({*old} - self._needed(c, instance, old))
                batches = list(c.execute(select(t.batch.c.id).where(in_list(t.batch.c.round, rounds))).scalars())
                for column, ids in (  # each row of another table before the row it names
                    (t.file_list.c.batch, batches),
                    (t.batch.c.id, batches),
                    (t.claim.c.round, rounds),
                    (t.tally.c.round, rounds),
                    (t.round.c.id, rounds),
                ):
                    if ids:
                        c.execute(delete(column.table).where(in_list(column, ids)))
        return last

    def _read_page(self, c: Connection, ends: Column[int], instance: str, after: int) -> tuple[list[int], int | None]:
        """Return which rows of the next page are old by a column, and its last number; None: the rest is newer."""
        t = ends.table
        oldest = select(t.c.id, ends.label("at")).where(t.c.instance == instance, t.c.id > after)
        page = c.execute(oldest.order_by(t.c.id).limit(PAGE_ROUNDS)).all()
        edge = self._db.now(c) - ROUND_DAYS * DAY_MS
        old = [row.id for row in page if row.at is not None and row.at < edge]
        return old, None if len(page) < PAGE_ROUNDS or not old else page[-1].id

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

    def _forget_plans(self, instance: str, after: int) -> int | None:
        """Delete what can be deleted of the next page of plans; return its last number, None: the rest is newer."""
        plan, round_ = self._db.t.plan, self._db.t.round
        other = plan.alias()
        newest = select(func.max(other.c.id)).where(other.c.instance == instance).scalar_subquery()
        is_of_round = exists().where(round_.c.plan == plan.c.id)
        is_unneeded = and_(plan.c.state != PlanState.APPLYING, plan.c.id != newest, ~is_of_round)
        with self._db.write() as c:
            old, last = self._read_page(c, plan.c.created_at, instance, after)
            if old:
                c.execute(delete(plan).where(in_list(plan.c.id, old), is_unneeded))
        return last
