"""Fencing, the engine's half: MARKED → FENCED before the owner is asked to let go, and back where it does not.

From FENCED on a commit and an undrop are refused, so what the owner says after it stays true until the claim.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Text, and_, delete, func, literal, select, tuple_, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.marks.model import OWNERS_REASONS, DueMark, Reason, Ref, WriteToken
from sexton.marks.sql.rows import among, below, due_mark
from sexton.recycle.pipeline.sql.write_token import prove

LOOKED_AT_ONCE = 10_000
"""Marks set aside for their owner about which it is asked together."""


class Fencing:
    """MARKED ↔ FENCED, and what is below a mark."""

    _db: Database

    def fence(self, token: WriteToken, refs: Collection[Ref]) -> frozenset[Ref]:
        """Fence marks; return those that are fenced now. What an owner's transaction holds this moment is left out."""
        if not refs:
            return frozenset()
        mark, db = self._db.t.mark, self._db
        named = and_(mark.c.instance == token.instance, among(db, mark, refs))
        with db.write() as c:
            prove(db, c, token, now=db.now(c))
            wanted = select(mark.c.kind, mark.c.id, mark.c.state).where(named)
            free = [r for r in c.execute(wanted.with_for_update(skip_locked=True)) if r.state != "CLAIMED"]
            found = frozenset(Ref(r.kind, r.id) for r in free)
            these = and_(mark.c.instance == token.instance, among(db, mark, found), mark.c.state == "MARKED")
            c.execute(update(mark).where(these).values(state="FENCED"))
        return found

    def unfence(self, token: WriteToken, kept: Mapping[Ref, str]) -> None:
        """Give fenced marks back to their owner, each with the reason."""
        if not kept:
            return
        mark, db = self._db.t.mark, self._db
        with db.write() as c:
            prove(db, c, token)
            for why in sorted(set(kept.values())):
                refs = [ref for ref, reason in kept.items() if reason == why]
                these = and_(mark.c.instance == token.instance, among(db, mark, refs), mark.c.state == "FENCED")
                c.execute(update(mark).where(these).values(state="MARKED", last_error=why[:1000]))

    def below_counts(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, int]:
        """Return how many marks name each of these as their parent, where any does."""
        mark = self._db.t.mark
        names = (mark.c.parent_kind, mark.c.parent_id)
        its = and_(mark.c.instance == instance, below(self._db, mark, refs))
        with self._db.read() as c:
            rows = c.execute(select(*names, func.count()).where(its).group_by(*names))
            return {Ref(kind, id_): n for kind, id_, n in rows}

    def below(self, instance: str, refs: Collection[Ref]) -> Mapping[Ref, Sequence[DueMark]]:
        """Return the marks that name each of these as their parent."""
        mark = self._db.t.mark
        found: dict[Ref, list[DueMark]] = {}
        with self._db.read() as c:
            for row in c.execute(select(mark).where(mark.c.instance == instance, below(self._db, mark, refs))):
                found.setdefault(Ref(row.parent_kind, row.parent_id), []).append(due_mark(row))
        return found

    def set_aside_for_owner(self, instance: str) -> Iterator[Sequence[DueMark]]:
        """Yield marks that only their owner can free, some thousands at a time, so that it is asked whether it has."""
        mark, after = self._db.t.mark, Ref("", "")
        its = and_(mark.c.instance == instance, mark.c.quarantined_reason.in_([str(r) for r in OWNERS_REASONS]))
        while True:
            beyond = tuple_(mark.c.kind, mark.c.id) > tuple_(literal(after.kind, Text()), literal(after.id, Text()))
            wanted = select(mark).where(its, beyond).order_by(mark.c.kind, mark.c.id).limit(LOOKED_AT_ONCE)
            with self._db.read() as c:
                found = [due_mark(row) for row in c.execute(wanted)]
            if not found:
                return
            yield found
            after = found[-1].ref

    def free(self, instance: str, refs: Collection[Ref]) -> None:
        """Bring back marks whose owner has mended the cause; claimed ones are looked at once more in this round."""
        if not refs:
            return
        mark, db = self._db.t.mark, self._db
        its = and_(mark.c.instance == instance, among(db, mark, refs))
        its = and_(its, mark.c.quarantined_reason.in_([str(r) for r in OWNERS_REASONS]))
        with db.write() as c:
            now = db.now(c)
            fresh = {"quarantined_reason": None, "last_error": None, "lacking": None}
            c.execute(update(mark).where(its, mark.c.state == "CLAIMED").values(**fresh, swept_at=now, next_try_at=now))
            c.execute(update(mark).where(its, mark.c.state != "CLAIMED").values(**fresh))

    def release_fenced(self, instance: str) -> None:
        """Give back what a round that died had fenced; this one fences anew what is due."""
        mark = self._db.t.mark
        with self._db.write() as c:
            fenced = and_(mark.c.instance == instance, mark.c.state == "FENCED")
            c.execute(update(mark).where(fenced).values(state="MARKED"))

    def take_back(self, instance: str, kinds: Mapping[str, Collection[str]], cutoffs: Mapping[str, int]) -> None:
        """Remove marks that were made below a parent that is not due (any more): a retention was raised.

        Args:
            instance: the instance.
            kinds: kinds that are made below parents → the kinds of these.
            cutoffs: kind → the latest ``ages_from`` that is due.
        """
        if not kinds:
            return
        mark = self._db.t.mark
        parent = mark.alias("parent")
        with deciding(self._db, instance) as c:
            for kind, above in kinds.items():
                for name in sorted(set(above) & cutoffs.keys()):
                    early = select(parent.c.id).where(
                        parent.c.instance == instance,
                        parent.c.kind == name,
                        parent.c.state != "CLAIMED",
                        parent.c.quarantined_reason.is_(None),
                        parent.c.ages_from > cutoffs[name],
                    )
                    these = and_(mark.c.instance == instance, mark.c.kind == kind, mark.c.state == "MARKED")
                    these = and_(these, mark.c.parent_kind == name, mark.c.parent_id.in_(early))
                    c.execute(delete(mark).where(these))

    def note_lacking(self, token: WriteToken, lacking: Mapping[Ref, Reason]) -> None:
        """Say of claimed marks that not all of their files can be named."""
        if not lacking:
            return
        mark, db = self._db.t.mark, self._db
        with db.write() as c:
            prove(db, c, token)
            for why in sorted(set(lacking.values())):
                its = among(db, mark, [ref for ref, reason in lacking.items() if reason == why])
                c.execute(update(mark).where(mark.c.instance == token.instance, its).values(lacking=why))
