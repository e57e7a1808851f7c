"""Keep or remove the marks that a repair made of orphans: a mark lives only as long as checks find its orphan again.

A record may write the name of an object in any form; only a check compares objects with all records. So a mark is
claimed only if a whole check, begun after the mark was made, has found its orphan again within the last two days. A
whole check that does not find the orphan removes its mark.
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
    """The marks of kind ``orphan`` that a repair made from findings of a check."""

    def __init__(self, db: Database) -> None:
        self._db, self._runs = db, CheckStore(db)

    def remove_refuted_marks(self, run: Run) -> int:
        """Remove the marks of orphans that a whole run did not find again, as a record names them now; return how many.

        Marks made after the run began are left.
        """
        mark = self._db.t.mark
        with deciding(self._db, run.instance) as c:
            is_earlier = and_(mark.c.instance == run.instance, mark.c.state == "MARKED", mark.c.marked_at <= run.cutoff)
            is_refuted = and_(is_earlier, found_by_check(mark), ~self._was_found_in(run.id))
            return c.execute(mark.delete().where(is_refuted)).rowcount

    def unproven(self, instance: str, ids: Collection[str]) -> frozenset[str]:
        """Return which of these orphan marks no recent whole run has found again: they must not be claimed."""
        run, mark = self._runs.last_whole(instance), self._db.t.mark
        if run is None or self._runs.now() - run.cutoff > FRESH_MS:
            return frozenset(ids)
        is_listed = and_(mark.c.instance == instance, mark.c.kind == ORPHAN, in_list(self._db, mark.c.id, ids))
        proven = select(mark.c.id).where(is_listed, mark.c.marked_at < run.cutoff, self._was_found_in(run.id))
        with self._db.read() as c:
            return frozenset(ids) - frozenset(c.execute(proven).scalars())

    def _was_found_in(self, run: int) -> ColumnElement[bool]:
        """Return the condition that a whole run found the orphan of a mark again."""
        t, mark = self._db.t.finding, self._db.t.mark
        is_own_finding = and_(t.c.instance == mark.c.instance, t.c.mark == mark.c.id)
        return exists().where(is_own_finding, t.c.mark != "", t.c.proven_in == run, t.c.state == FindingState.REPAIRED)
