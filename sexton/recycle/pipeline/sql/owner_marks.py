"""Store what owners decide about marks: fences, lifted quarantines, removed marks, and files that cannot be named.

MARKED → FENCED before the owner is asked to fence, and back if it refuses. Commits and undrops of a FENCED mark are
refused, so the owner's answer stays true until the claim.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Connection, and_, delete, func, not_, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import beyond
from sexton.marks.model import OWNERS_REASONS, Cutoff, DueMark, MarkState, Reason, Ref, WriteToken
from sexton.marks.sql.rows import children_of, due_columns, due_mark, is_due, read_due, refs_in
from sexton.recycle.pipeline.sql.batches import verify

ASKED_AT_ONCE = 10_000
"""Quarantined marks about which an owner is asked in one call."""


class OwnerMarkStore:
    """Fences marks, finds their children, lifts quarantines for owners, and removes marks that are none any longer."""

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

    def unfence(self, token: WriteToken, reasons: Mapping[Ref, str], taken_back: Collection[Ref]) -> None:
        """Give fenced marks back to their owner, each with the reason; remove those that it no longer calls garbage.

        ``taken_back``: those of the marks that are removed.
        """
        if not reasons:
            return
        mark, db = self._db.t.mark, self._db
        with db.write() as tx:
            verify(tx, token)
            for reason in sorted(set(reasons.values())):
                refs = [ref for ref, why in reasons.items() if why == reason]
                fenced = and_(mark.c.instance == token.instance, refs_in(mark, refs), mark.c.state == MarkState.FENCED)
                tx.execute(update(mark).where(fenced).values(state=MarkState.MARKED, last_error=reason[:1000]))
            # After the update: marks that no owner could undrop are protected from a delete.
            is_marked = and_(mark.c.instance == token.instance, mark.c.state == MarkState.MARKED)
            tx.execute(delete(mark).where(is_marked, refs_in(mark, taken_back)))

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

    def quarantined(self, instance: str) -> Iterator[Sequence[DueMark]]:
        """Yield marks whose quarantine only their owner can lift, some thousands at a time."""
        mark, after = self._db.t.mark, Ref("", "")
        of_owner = and_(mark.c.instance == instance, mark.c.quarantined_reason.in_([str(r) for r in OWNERS_REASONS]))
        order = (mark.c.kind, mark.c.id)
        while True:
            page = select(*due_columns(mark)).where(of_owner, beyond(order, after)).limit(ASKED_AT_ONCE)
            with self._db.read() as tx:
                marks = read_due(tx, page, order)
            if not marks:
                return
            yield marks
            after = marks[-1].ref

    def free(self, instance: str, refs: Collection[Ref]) -> None:
        """Lift the quarantine of marks whose owner has fixed the cause; claimed ones are listed again in this round."""
        if not refs:
            return
        mark, db = self._db.t.mark, self._db
        in_question = and_(mark.c.instance == instance, refs_in(mark, refs))
        of_owner = and_(in_question, mark.c.quarantined_reason.in_([str(r) for r in OWNERS_REASONS]))
        with db.write() as tx:
            now = db.now(tx)
            lifted = {"quarantined_reason": None, "last_error": None, "lacking": None}
            claimed = update(mark).where(of_owner, mark.c.state == MarkState.CLAIMED)
            tx.execute(claimed.values(**lifted, first_pass_at=now, next_try_at=now))
            tx.execute(update(mark).where(of_owner, mark.c.state != MarkState.CLAIMED).values(**lifted))

    def take_back(self, instance: str, kinds: Mapping[str, Collection[str]], cutoffs: Mapping[str, Cutoff]) -> None:
        """Remove marks that were made below a parent that is no longer due, because a retention was raised.

        Args:
            instance: the instance.
            kinds: kinds that are made below parents → the kinds of these parents.
            cutoffs: kind → which of its marks are due.
        """
        if not kinds:
            return
        mark = self._db.t.mark
        parent = mark.alias("parent")
        with deciding(self._db, instance) as tx:
            for kind, parent_kinds in kinds.items():
                for parent_kind in sorted(set(parent_kinds) & cutoffs.keys()):
                    not_due = select(parent.c.id).where(
                        parent.c.instance == instance,
                        parent.c.kind == parent_kind,
                        parent.c.state != MarkState.CLAIMED,
                        parent.c.quarantined_reason.is_(None),
                        not_(is_due(parent, cutoffs[parent_kind])),
                    )
                    of_kind = and_(mark.c.instance == instance, mark.c.kind == kind, mark.c.state == MarkState.MARKED)
                    below = and_(mark.c.parent_kind == parent_kind, mark.c.parent_id.in_(not_due))
                    tx.execute(delete(mark).where(of_kind, below))

    def note_lacking(self, token: WriteToken, lacking: Mapping[Ref, Reason]) -> None:
        """Record that the owner could not name all files of these claimed marks."""
        if not lacking:
            return
        with self._db.write() as tx:
            verify(tx, token)
            set_lacking(self._db, tx, token.instance, lacking)


def set_lacking(db: Database, tx: Connection, instance: str, lacking: Mapping[Ref, Reason]) -> None:
    """Record why the records of some claimed marks must stay."""
    mark = db.t.mark
    for reason in sorted(set(lacking.values())):
        refs = refs_in(mark, [ref for ref, why in lacking.items() if why == reason])
        tx.execute(update(mark).where(mark.c.instance == instance, refs).values(lacking=reason))
