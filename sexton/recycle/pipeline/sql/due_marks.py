"""Select the marks that a batch works on: due, claimed, or due for their second pass."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from sexton.database.engine import Database
from sexton.database.rows import beyond
from sexton.marks.model import (
    CHUNK_MARKS,
    NO_LAST_FILE,
    POISON_RETRY_SECONDS,
    Cutoff,
    DueMark,
    MarkState,
    Reason,
    Ref,
    WriteToken,
)
from sexton.marks.sql.rows import due_columns, is_due, read_due, refs_in
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.pipeline.sql.batches import verify
from sexton.recycle.pipeline.sql.files import carry_over


class DueMarkStore:
    """Selects marks in the order of an index, a page at a time."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def select_due(
        self, instance: str, kind: str, cutoff: Cutoff, after: Cursor, limit: int, until: Cursor | None = None
    ) -> Sequence[DueMark]:
        """Return the next due marks after a cursor, up to another one, as they became due: an index range.

        They are fewer than ``limit`` where they name many keys.
        """
        mark = self._db.t.mark
        position = (mark.c.retention_starts_at, mark.c.id)
        between = beyond(position, (after.retention_starts_at, after.id))
        if until is not None:
            between &= ~beyond(position, (until.retention_starts_at, until.id))
        with self._db.read() as c:
            return read_due(
                c,
                select(*due_columns(mark))
                .where(mark.c.instance == instance, mark.c.kind == kind, mark.c.state != MarkState.CLAIMED)
                .where(mark.c.quarantined_reason.is_(None), is_due(mark, cutoff), between)
                .limit(limit),
                position,
            )

    def claimed_marks(self, token: WriteToken) -> Iterator[Sequence[Ref]]:
        """Yield pages of the claimed, unquarantined, not absorbed marks of the batch in the order of their files."""
        mark = self._db.t.mark
        order = (mark.c.last_file, mark.c.kind, mark.c.id)
        is_claimed = and_(mark.c.instance == token.instance, mark.c.state == MarkState.CLAIMED)
        in_first_pass = and_(mark.c.first_pass_at.is_(None), mark.c.absorbed.is_(False))
        in_order = (
            select(*order)
            .where(is_claimed, mark.c.batch == token.batch, in_first_pass, mark.c.quarantined_reason.is_(None))
            .order_by(*order)
            .limit(CHUNK_MARKS)
        )
        after: Any = (0, "", "")
        while True:
            with self._db.read() as c:
                rows = c.execute(in_order.where(beyond(order, after))).all()
            if not rows:
                return
            yield [Ref(row.kind, row.id) for row in rows]
            after = rows[-1]

    def take_second_pass(
        self, token: WriteToken, after: Ref, limit: int, upload_grace_seconds: int
    ) -> Sequence[DueMark]:
        """Move marks into this batch whose second pass is due.

        The upload grace has passed since the claim too, unless the mark names its keys: a mark that left quarantine is
        due at once, and an upload that began before its claim may still end.
        """
        mark, db = self._db.t.mark, self._db
        with db.write() as c:
            now = db.now(c)
            verify(c, token, now=now)
            second_pass_due = (
                select(*due_columns(mark))
                .where(self._in_second_pass(token), mark.c.finished.is_(False))
                .where(mark.c.quarantined_reason.is_(None), mark.c.next_try_at <= now)
                .where(or_(mark.c["keys"].is_not(None), mark.c.claimed_at <= now - upload_grace_seconds * 1000))
                .where(beyond((mark.c.kind, mark.c.id), after))
                .limit(limit)
            )
            marks = read_due(c, second_pass_due, (mark.c.kind, mark.c.id))
            self._move_into(c, token, [m.ref for m in marks])
            return marks

    def take_finished(self, token: WriteToken, after: Ref, limit: int) -> Sequence[Ref]:
        """Move marks into this batch whose second pass an earlier attempt has ended, but not settled.

        No keeper is asked: their files are gone, and their owner may have removed its records.
        """
        mark = self._db.t.mark
        finished = select(mark.c.kind, mark.c.id).where(self._in_second_pass(token), mark.c.finished)
        page = finished.where(beyond((mark.c.kind, mark.c.id), after)).order_by(mark.c.kind, mark.c.id).limit(limit)
        with self._db.write() as c:
            verify(c, token, now=self._db.now(c))
            refs = [Ref(*row) for row in c.execute(page)]
            self._move_into(c, token, refs)
            return refs

    def shorten_waits(self, token: WriteToken, upload_grace_seconds: int) -> None:
        """Let marks wait no longer than a second pass or a retry of failed deletes does; nor operators for requests.

        A clock that was ahead for a moment would otherwise delay them, perhaps by years, and no report would say so.
        """
        mark = self._db.t.mark
        with self._db.write() as c:
            verify(c, token)
            now = self._db.now(c)
            batch = self._db.t.batch
            of_the_future = and_(batch.c.instance == token.instance, batch.c.taken_over_at > now)
            c.execute(update(batch).where(of_the_future).values(taken_over_at=now))
            latest = now + max(upload_grace_seconds, POISON_RETRY_SECONDS) * 1000
            failed = and_(
                mark.c.instance == token.instance,
                mark.c.state == MarkState.CLAIMED,
                mark.c.quarantined_reason == Reason.DELETE_FAILED,
            )
            for waiting in (self._in_second_pass(token), failed):
                c.execute(update(mark).where(waiting, mark.c.next_try_at > latest).values(next_try_at=latest))
                c.execute(update(mark).where(waiting, mark.c.claimed_at > now).values(claimed_at=now))

    def _in_second_pass(self, token: WriteToken) -> ColumnElement[bool]:
        mark = self._db.t.mark
        is_claimed = and_(mark.c.instance == token.instance, mark.c.state == MarkState.CLAIMED)
        return and_(is_claimed, mark.c.first_pass_at.is_not(None))

    def _move_into(self, c: Connection, token: WriteToken, refs: Sequence[Ref]) -> None:
        """Move marks from the batches of earlier rounds into this one, with the files that are gone already."""
        if not refs:
            return
        mark = self._db.t.mark
        moved = and_(mark.c.instance == token.instance, refs_in(mark, refs))
        # Marks are locked before lists, here as everywhere.
        in_order = select(mark.c.batch, mark.c.kind, mark.c.id).where(moved).order_by(mark.c.kind, mark.c.id)
        refs_by_batch: dict[int, list[Ref]] = {}
        for batch, kind, id_ in c.execute(in_order.with_for_update()):
            if batch != token.batch:
                refs_by_batch.setdefault(batch, []).append(Ref(kind, id_))
        carry_over(self._db, c, token, refs_by_batch)
        values = {"batch": token.batch, "lease_epoch": token.lease.epoch, "files_after": 0, "last_file": NO_LAST_FILE}
        c.execute(update(mark).where(moved).values(**values))
