"""Keep or remove the marks that a repair made of orphans: a mark lives only as long as checks find its orphan again.

A record may write the name of an object in any form; only a check compares objects with all records. So a mark is
claimed only if a whole check, begun after the mark was made, has found its orphan again within the last two days. A
whole check that does not find the orphan removes its mark.
"""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, literal_column, select

from sexton.check.model import FindingState, Run
from sexton.check.policy import FRESH_MS
from sexton.check.sql.live_side import QUARANTINED, WAITING, is_in
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import beyond, in_list
from sexton.marks.sql.orphans import ORPHAN, found_by_check

PAGE_MARKS = 1_000
_Position = tuple[int, str]
"""Of a mark: when its retention starts (ms since 1970), and its id."""
NO_MARK: ColumnElement[str] = literal_column("''")
"""Text instead of a parameter: so the planner sees that the partial index of findings with a mark applies."""


class Orphans:
    """The marks of kind ``orphan`` that a repair made from findings of a check."""

    def __init__(self, db: Database) -> None:
        self._db, self._runs = db, CheckStore(db)

    def remove_refuted_marks(self, run: Run) -> int:
        """Remove the marks of orphans that a whole run did not find again, as a record names them now; return how many.

        Marks made after the run began are left. Each page has a transaction of its own, under the guard; meanwhile
        no claim takes a mark that is refuted (``unproven``).
        """
        removed = 0
        for source in (WAITING, QUARANTINED):
            last: _Position | None = (0, "")
            while last is not None:
                removed_now, last = self._remove_refuted_page(run, source, last)
                removed += removed_now
        return removed

    def _remove_refuted_page(self, run: Run, source: str, after: _Position) -> tuple[int, _Position | None]:
        """Remove the refuted ones of the next page of marks; return how many, and the last position, None: no page."""
        mark = self._db.t.mark
        position = (mark.c.retention_starts_at, mark.c.id)
        is_next = and_(is_in(mark, run.instance, source), self._is_earlier(run), beyond(position, after))
        next_marks = select(*position).where(is_next).order_by(*position).limit(PAGE_MARKS)
        with deciding(self._db, run.instance) as c:
            page = [(row[0], row[1]) for row in c.execute(next_marks)]
            if not page:
                return 0, None
            ids = [mark_id for _, mark_id in page]
            refuted = set(ids) - self._found_in(c, run, ids)
            is_refuted = and_(self._is_earlier(run), self._listed(run.instance, refuted))
            return c.execute(mark.delete().where(is_refuted)).rowcount, page[-1]

    def _is_earlier(self, run: Run) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(
            mark.c.kind == ORPHAN, mark.c.state == "MARKED", mark.c.marked_at <= run.cutoff, found_by_check(mark)
        )

    def unproven(self, instance: str, ids: Collection[str]) -> frozenset[str]:
        """Return which of these orphan marks no recent whole run has found again: they must not be claimed."""
        run, mark = self._runs.last_whole(instance), self._db.t.mark
        if run is None or self._runs.now() - run.cutoff > FRESH_MS:
            return frozenset(ids)
        with self._db.read() as c:
            earlier = select(mark.c.id).where(self._listed(instance, ids), mark.c.marked_at < run.cutoff)
            return frozenset(ids) - self._found_in(c, run, c.execute(earlier).scalars().all())

    def _listed(self, instance: str, ids: Collection[str]) -> ColumnElement[bool]:
        mark = self._db.t.mark
        return and_(mark.c.instance == instance, mark.c.kind == ORPHAN, in_list(mark.c.id, ids))

    def _found_in(self, c: Connection, run: Run, marks: Collection[str]) -> set[str]:
        """Return those of these marks whose orphan a whole run found again."""
        t = self._db.t.finding
        has_mark = and_(t.c.instance == run.instance, t.c.mark != NO_MARK, in_list(t.c.mark, marks))
        is_found = and_(t.c.proven_in == run.id, t.c.state == FindingState.REPAIRED)
        return set(c.execute(select(t.c.mark).where(has_mark, is_found)).scalars())
