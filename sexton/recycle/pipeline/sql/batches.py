"""Store batches: a batch is the row of one range, and its token lets one attempt write."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    and_,
    case,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from sexton.database.engine import Database
from sexton.marks.lease import Lease
from sexton.marks.model import (
    POISON_RETRY_SECONDS,
    SECOND_PASS,
    BatchState,
    DueMark,
    MarkState,
    Reason,
    Ref,
    WriteToken,
)
from sexton.marks.sql.rows import CLAIMED, due_columns, due_mark, refs_in
from sexton.recycle.pipeline.model import AdoptOrder, Cursor, RangeOrder, RangeReceipt
from sexton.recycle.pipeline.sql.write_token import ensure_latest, verify


def _after(first: Column[Any], second: Column[Any], at: tuple[Any, Any]) -> ColumnElement[bool]:
    """Return the keyset condition as one row comparison, which both databases turn into an index range."""
    return tuple_(first, second) > tuple_(literal(at[0], first.type), literal(at[1], second.type))


class BatchStore:
    """Opens, closes and adopts batches; selects the marks that they work on."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def open(self, order: RangeOrder, attempt: int) -> tuple[WriteToken, RangeReceipt | None]:
        """Open (or open again) the batch of a range; a receipt means an earlier attempt finished it."""
        return self._open(order.round, order.lease, order.kind, order.number, attempt, order.after.model_dump_json())

    def open_second_pass(self, order: AdoptOrder, attempt: int) -> WriteToken:
        """Open the batch of this round's second passes."""
        return self._open(order.round, order.lease, SECOND_PASS, 0, attempt, "")[0]

    def _open(
        self, round_: int, lease: Lease, kind: str, number: int, attempt: int, first: str
    ) -> tuple[WriteToken, RangeReceipt | None]:
        batch = self._db.t.batch
        same_range = and_(batch.c.round == round_, batch.c.kind == kind, batch.c.number == number)
        with self._db.write() as c:
            row = c.execute(select(batch).where(same_range).with_for_update()).one_or_none()
            if row is None:
                values = {"instance": lease.instance, "round": round_, "kind": kind, "number": number}
                batch_id = c.execute(
                    insert(batch)
                    .values(
                        **values, first=first, last="", lease_epoch=lease.epoch, attempt=attempt, state=BatchState.OPEN
                    )
                    .returning(batch.c.id)
                ).scalar_one()
                return WriteToken(batch=batch_id, round=round_, lease=lease, attempt=attempt), None
            token = WriteToken(batch=row.id, round=round_, lease=lease, attempt=attempt)
            if row.receipt is not None:
                return token, RangeReceipt.model_validate(row.receipt)
            return self._reopen(c, token), None

    def ensure_latest(self, token: WriteToken, file: int) -> None:
        """Raise ``LeaseLost`` if a newer attempt or epoch works on the batch, or if the file of this number is done."""
        ensure_latest(self._db, token, file)

    def count_claimed(self, token: WriteToken) -> int:
        """Return how many marks this batch has claimed, over all attempts."""
        batch = self._db.t.batch
        with self._db.read() as c:
            return int(c.execute(select(batch.c.claimed).where(batch.c.id == token.batch)).scalar_one())

    def record_requests(self, token: WriteToken) -> None:
        """Record that a request of the batch may be on its way for which nobody waits."""
        batch = self._db.t.batch
        with self._db.write() as c:
            verify(self._db, c, token)
            c.execute(update(batch).where(batch.c.id == token.batch).values(taken_over_at=self._db.now(c)))

    def close(self, token: WriteToken, receipt: RangeReceipt) -> None:
        """Store the receipt, which answers a repeated order."""
        batch = self._db.t.batch
        with self._db.write() as c:
            verify(self._db, c, token)
            values = {"state": BatchState.DONE, "receipt": receipt.model_dump(), "last": receipt.last.model_dump_json()}
            c.execute(update(batch).where(batch.c.id == token.batch).values(**values))

    def unfinished(self, instance: str, round_: int) -> Sequence[int]:
        """Return batches that earlier rounds left open, or that hold claimed marks whose files were not all tried."""
        mark, batch = self._db.t.mark, self._db.t.batch
        left_open = select(batch.c.id).where(
            batch.c.instance == instance, batch.c.state == BatchState.OPEN, batch.c.round != round_
        )
        claimed = and_(mark.c.instance == instance, mark.c.state == CLAIMED)
        # One seek in the index for each batch: a plan that reads every claimed mark may take minutes.
        hop = select(func.min(mark.c.batch).label("batch")).where(claimed).cte("hop", recursive=True)
        step = select(func.min(mark.c.batch)).where(claimed, mark.c.batch > hop.c.batch).scalar_subquery()
        hop = hop.union_all(select(step).where(hop.c.batch.is_not(None)))
        untried = exists().where(claimed, mark.c.batch == batch.c.id, mark.c.first_pass_at.is_(None))
        untried = untried.where(mark.c.quarantined_reason.is_(None), mark.c.absorbed.is_(False))
        # This round's own ranges are finished by their own retries.
        with_claimed_marks = (
            select(batch.c.id).join(hop, hop.c.batch == batch.c.id).where(batch.c.round != round_, untried)
        )
        with self._db.read() as c:
            return sorted(c.execute(left_open.union(with_claimed_marks)).scalars())

    def end(self, token: WriteToken) -> None:
        """Close an adopted batch, or that of the second passes; no workflow waits for its receipt."""
        batch = self._db.t.batch
        with self._db.write() as c:
            verify(self._db, c, token)
            c.execute(update(batch).where(batch.c.id == token.batch).values(state=BatchState.DONE))

    def adopt_earlier(self, batch: int, order: AdoptOrder, attempt: int) -> WriteToken:
        """Adopt a batch of an earlier round; its failed deletes are tried again."""
        token = WriteToken(batch=batch, round=order.round, lease=order.lease, attempt=attempt)
        with self._db.write() as c:
            return self._reopen(c, token)

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
            verify(db, c, token, now=now)
            second_pass_due = (
                select(*due_columns(mark))
                .where(self._in_second_pass(token), mark.c.finished.is_(False))
                .where(mark.c.quarantined_reason.is_(None), mark.c.next_try_at <= now)
                .where(or_(mark.c["keys"].is_not(None), mark.c.claimed_at <= now - upload_grace_seconds * 1000))
                .where(_after(mark.c.kind, mark.c.id, after))
                .order_by(mark.c.kind, mark.c.id)
                .limit(limit)
            )
            marks = [due_mark(row) for row in c.execute(second_pass_due)]
            self._move_into(c, token, [m.ref for m in marks])
            return marks

    def take_finished(self, token: WriteToken, after: Ref, limit: int) -> Sequence[Ref]:
        """Move marks into this batch whose second pass an earlier attempt has ended, but not settled.

        No keeper is asked: their files are gone, and their owner may have removed its records.
        """
        mark = self._db.t.mark
        finished = select(mark.c.kind, mark.c.id).where(self._in_second_pass(token), mark.c.finished)
        page = finished.where(_after(mark.c.kind, mark.c.id, after)).order_by(mark.c.kind, mark.c.id).limit(limit)
        with self._db.write() as c:
            verify(self._db, c, token, now=self._db.now(c))
            refs = [Ref(*row) for row in c.execute(page)]
            self._move_into(c, token, refs)
            return refs

    def shorten_waits(self, token: WriteToken, upload_grace_seconds: int) -> None:
        """Let marks wait no longer than a second pass or a retry of failed deletes does; nor operators for requests.

        A clock that was ahead for a moment would otherwise delay them, perhaps by years, and no report would say so.
        """
        mark = self._db.t.mark
        with self._db.write() as c:
            verify(self._db, c, token)
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
        """Move marks from the batches of earlier rounds into this one."""
        mark = self._db.t.mark
        moved = and_(mark.c.instance == token.instance, refs_in(self._db, mark, refs))
        c.execute(update(mark).where(moved).values(batch=token.batch, lease_epoch=token.lease.epoch))

    def claimed_refs(self, token: WriteToken, after: Ref, limit: int) -> Sequence[Ref]:
        """Return claimed, unquarantined marks of the batch in order of kind and id, but for absorbed ones."""
        mark = self._db.t.mark
        with self._db.read() as c:
            rows = c.execute(
                select(mark.c.kind, mark.c.id)
                .where(
                    mark.c.instance == token.instance, mark.c.state == MarkState.CLAIMED, mark.c.batch == token.batch
                )
                .where(mark.c.quarantined_reason.is_(None), mark.c.first_pass_at.is_(None), mark.c.absorbed.is_(False))
                .where(_after(mark.c.kind, mark.c.id, after))
                .order_by(mark.c.kind, mark.c.id)
                .limit(limit)
            )
            return [Ref(*row) for row in rows]

    def select_due(
        self, instance: str, kind: str, cutoff: int, after: Cursor, limit: int, until: Cursor | None = None
    ) -> Sequence[DueMark]:
        """Return the next due marks after a cursor, up to another one, as they became due: an index range."""
        mark = self._db.t.mark
        position = (mark.c.retention_starts_at, mark.c.id)
        between = _after(*position, (after.retention_starts_at, after.id))
        if until is not None:
            between &= ~_after(*position, (until.retention_starts_at, until.id))
        with self._db.read() as c:
            rows = c.execute(
                select(*due_columns(mark))
                .where(mark.c.instance == instance, mark.c.kind == kind, mark.c.state != MarkState.CLAIMED)
                .where(mark.c.quarantined_reason.is_(None), mark.c.retention_starts_at <= cutoff, between)
                .order_by(*position)
                .limit(limit)
            )
            return [due_mark(row) for row in rows]

    def _reopen(self, c: Connection, token: WriteToken) -> WriteToken:
        """Take the batch and open it: while it is open, a take-over and a freed lease record its requests."""
        batch = self._db.t.batch
        token = self._seize(c, token)
        c.execute(update(batch).where(batch.c.id == token.batch).values(state=BatchState.OPEN))
        return token

    def _seize(self, c: Connection, token: WriteToken) -> WriteToken:
        """Take the batch unless a newer attempt has it, and return the token that may write for it.

        Threads that store outcomes under the old token share the row: the take-over waits for them. What the old
        attempt left is dropped page by page, by ``FileStore.drop_unclaimed``, before this attempt reads any file.
        """
        batch = self._db.t.batch
        older = (batch.c.lease_epoch < token.lease.epoch) | (
            (batch.c.lease_epoch == token.lease.epoch) & (batch.c.attempt <= token.attempt)
        )
        c.execute(select(batch.c.id).where(batch.c.id == token.batch).with_for_update())
        # A batch that is closed has no request on its way.
        now = literal(self._db.now(c), batch.c.taken_over_at.type)
        taken_over_at = case((batch.c.state == BatchState.OPEN, now), else_=batch.c.taken_over_at)
        owner: dict[str, Any] = {"lease_epoch": token.lease.epoch, "attempt": token.attempt}
        owner |= {"open_count": batch.c.open_count + 1, "taken_over_at": taken_over_at}
        opened = update(batch).where(batch.c.id == token.batch, older).values(**owner).returning(batch.c.open_count)
        token = token.model_copy(update={"open_count": c.execute(opened).scalar_one_or_none() or 0})
        verify(self._db, c, token)
        return token
