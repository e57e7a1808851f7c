"""Store the engine's half of fencing: MARKED → FENCED before the owner is asked to fence, and back if it refuses.

Commits and undrops of a FENCED mark are refused, so the owner's answer stays true until the claim.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import and_, delete, func, select, update

from sexton.database.engine import Database
from sexton.marks.model import DueMark, MarkState, Ref, WriteToken
from sexton.marks.sql.rows import children_of, due_columns, due_mark, refs_in
from sexton.recycle.pipeline.sql.batches import verify


class FenceStore:
    """MARKED ↔ FENCED, and the children of marks."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def fence(self, token: WriteToken, refs: Collection[Ref]) -> frozenset[Ref]:
        """Fence marks and return those that are fenced now; marks that an owner's transaction locks are left out."""
        if not refs:
            return frozenset()
        mark, db = self._db.t.mark, self._db
        in_question = and_(mark.c.instance == token.instance, refs_in(mark, refs))
        with db.write() as tx:
            verify(tx, token, now=db.now(tx))
            lock = select(mark.c.kind, mark.c.id, mark.c.state).where(in_question).with_for_update(skip_locked=True)
            unclaimed = frozenset(Ref(r.kind, r.id) for r in tx.execute(lock) if r.state != MarkState.CLAIMED)
            marked = and_(mark.c.instance == token.instance, refs_in(mark, unclaimed), mark.c.state == MarkState.MARKED)
            tx.execute(update(mark).where(marked).values(state=MarkState.FENCED))
        return unclaimed

    def unfence(self, token: WriteToken, reasons: Mapping[Ref, str]) -> None:
        """Give fenced marks back to their owner, each with the reason."""
        if not reasons:
            return
        mark, db = self._db.t.mark, self._db
        with db.write() as tx:
            verify(tx, token)
            for reason in sorted(set(reasons.values())):
                refs = [ref for ref, why in reasons.items() if why == reason]
                fenced = and_(mark.c.instance == token.instance, refs_in(mark, refs), mark.c.state == MarkState.FENCED)
                tx.execute(update(mark).where(fenced).values(state=MarkState.MARKED, last_error=reason[:1000]))

    def take_back(self, token: WriteToken, refs: Collection[Ref]) -> None:
        """Remove fenced marks that their owner no longer calls garbage."""
        if not refs:
            return
        mark, db = self._db.t.mark, self._db
        with db.write() as tx:
            verify(tx, token)
            fenced = and_(mark.c.instance == token.instance, refs_in(mark, refs), mark.c.state == MarkState.FENCED)
            # Two statements: marks that no owner could undrop are protected from a delete.
            tx.execute(update(mark).where(fenced).values(state=MarkState.MARKED))
            is_marked = and_(mark.c.instance == token.instance, refs_in(mark, refs))
            tx.execute(delete(mark).where(is_marked, mark.c.state == MarkState.MARKED))

    def release_all(self, instance: str) -> None:
        """Unfence the marks that a dead round had fenced; this round fences due marks again."""
        mark = self._db.t.mark
        with self._db.write() as tx:
            fenced = and_(mark.c.instance == instance, mark.c.state == MarkState.FENCED)
            tx.execute(update(mark).where(fenced).values(state=MarkState.MARKED))

    def count_children(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, int]:
        """Return how many marks name each of these as their parent; marks without children are left out."""
        mark = self._db.t.mark
        columns = (mark.c.parent_kind, mark.c.parent_id)
        below = and_(mark.c.instance == instance, children_of(mark, refs))
        with self._db.read() as tx:
            rows = tx.execute(select(*columns, func.count()).where(below).group_by(*columns))
            return {Ref(kind, id_): number for kind, id_, number in rows}

    def find_children(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, Sequence[DueMark]]:
        """Return the marks that name each of these as their parent."""
        mark = self._db.t.mark
        parent = (mark.c.parent_kind, mark.c.parent_id)
        by_parent: dict[Ref, list[DueMark]] = {}
        with self._db.read() as tx:
            below = and_(mark.c.instance == instance, children_of(mark, refs))
            for parent_kind, parent_id, *row in tx.execute(select(*parent, *due_columns(mark)).where(below)):
                by_parent.setdefault(Ref(parent_kind, parent_id), []).append(due_mark(row))
        return by_parent
