"""Marks that a repair made of orphans: each lives only as long as checks find its orphan again.

What names an object may be written in any form, by anybody; only a check compares it with all of them. So a mark is
claimed when a whole check, begun after it was made, has found its orphan again within the last two days; and a whole
check that does not takes it back.
"""

from collections.abc import Collection

from sqlalchemy import ColumnElement, and_, exists, select

from sexton.check.model import FindingState, Run
from sexton.check.policy import FRESH_MS
from sexton.check.sources.marks import ORPHAN, found_by_check
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import in_list


class Orphans:
    """Marks of kind ``orphan`` that a check is behind."""

    def __init__(self, db: Database) -> None:
        self._db, self._runs = db, CheckStore(db)

    def take_back(self, run: Run) -> int:
        """Take back the marks of orphans that a whole run did not find again: somebody knows them by now."""
        mark = self._db.t.mark
        with deciding(self._db, run.instance) as c:
            older = and_(mark.c.instance == run.instance, mark.c.state == "MARKED", mark.c.marked_at <= run.cutoff)
            its = and_(older, found_by_check(mark), ~self._found_in(run.id))
            return c.execute(mark.delete().where(its)).rowcount

    def waiting(self, instance: str, ids: Collection[str]) -> frozenset[str]:
        """Return those of the orphans' marks that no whole run has found again lately: they are not claimed."""
        run, mark = self._runs.last_whole(instance), self._db.t.mark
        if run is None or self._runs.now() - run.cutoff > FRESH_MS:
            return frozenset(ids)
        its = and_(mark.c.instance == instance, mark.c.kind == ORPHAN, in_list(self._db, mark.c.id, ids))
        found = select(mark.c.id).where(its, mark.c.marked_at < run.cutoff, self._found_in(run.id))
        with self._db.read() as c:
            return frozenset(ids) - frozenset(c.execute(found).scalars())

    def _found_in(self, run: int) -> ColumnElement[bool]:
        """Return the condition that a whole run found the orphan of a mark again."""
        f, mark = self._db.t.finding, self._db.t.mark
        same = and_(f.c.instance == mark.c.instance, f.c.mark == mark.c.id)
        return exists().where(same, f.c.mark != "", f.c.proven_in == run, f.c.state == FindingState.REPAIRED)
