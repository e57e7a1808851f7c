"""Store what owners decide about marks: lifted quarantines, removed child marks, and files that cannot be named."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Connection, and_, delete, select, update

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.database.rows import beyond
from sexton.marks.model import OWNERS_REASONS, DueMark, MarkState, Reason, Ref, WriteToken
from sexton.marks.sql.rows import due_columns, read_due, refs_in
from sexton.recycle.pipeline.sql.batches import verify

ASKED_AT_ONCE = 10_000
"""Quarantined marks about which an owner is asked in one call."""


class OwnerMarkStore:
    """Lifts quarantines for owners, and removes marks after a retention was raised."""

    def __init__(self, db: Database) -> None:
        self._db = db

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

    def take_back(self, instance: str, kinds: Mapping[str, Collection[str]], cutoffs: Mapping[str, int]) -> None:
        """Remove marks that were made below a parent that is no longer due, because a retention was raised.

        Args:
            instance: the instance.
            kinds: kinds that are made below parents → the kinds of these parents.
            cutoffs: kind → the latest ``retention_starts_at`` that is due.
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
                        parent.c.retention_starts_at > cutoffs[parent_kind],
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
