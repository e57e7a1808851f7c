"""Batches: the row under which one range is resolved, claimed and deleted, and who may write for it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    and_,
    delete,
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
from sexton.database.guard import deciding
from sexton.marks.lease import Lease
from sexton.marks.model import DONE, LATE, DueMark, Reason, Ref, Unresolvable, WriteToken
from sexton.marks.sql.rows import among, due_mark
from sexton.recycle.model import AdoptOrder, Cursor, RangeOrder, RangeReceipt
from sexton.recycle.pipeline.sql.write_token import prove
from sexton.storage.model import KeyOutcome


def _after(first: Column[Any], second: Column[Any], at: tuple[Any, Any]) -> ColumnElement[bool]:
    """Return the keyset condition, as one row comparison: both databases turn it into an index range."""
    return tuple_(first, second) > tuple_(literal(at[0], first.type), literal(at[1], second.type))


class Batches:
    """Open, close and take over batches; pick what is due."""

    _db: Database

    def open_batch(self, order: RangeOrder, attempt: int) -> tuple[WriteToken, RangeReceipt | None]:
        """Open (or open again) the batch of a range; a receipt means an earlier attempt finished it."""
        return self._open(order.round, order.lease, order.kind, order.number, attempt, order.after.model_dump_json())

    def open_late_batch(self, order: AdoptOrder, attempt: int) -> WriteToken:
        """Open the batch under which this round lists swept prefixes once more."""
        return self._open(order.round, order.lease, LATE, 0, attempt, "")[0]

    def _open(
        self, round_: int, lease: Lease, kind: str, number: int, attempt: int, first: str
    ) -> tuple[WriteToken, RangeReceipt | None]:
        batch = self._db.t.batch
        mine = and_(batch.c.round == round_, batch.c.kind == kind, batch.c.number == number)
        with self._db.write() as c:
            row = c.execute(select(batch).where(mine).with_for_update()).one_or_none()
            if row is None:
                values = {"instance": lease.instance, "round": round_, "kind": kind, "number": number}
                made = c.execute(
                    insert(batch)
                    .values(**values, first=first, last="", lease_epoch=lease.epoch, attempt=attempt, state="OPEN")
                    .returning(batch.c.id)
                ).scalar_one()
                return WriteToken(batch=made, round=round_, lease=lease, attempt=attempt), None
            token = WriteToken(batch=row.id, round=round_, lease=lease, attempt=attempt)
            if row.receipt is not None:
                return token, RangeReceipt.model_validate(row.receipt)
            token = self._seize(c, token)
            c.execute(update(batch).where(batch.c.id == row.id).values(state="OPEN"))
        return token, None

    def claimed_in(self, token: WriteToken) -> int:
        """Return how many marks this batch has claimed, over all attempts."""
        batch = self._db.t.batch
        with self._db.read() as c:
            return int(c.execute(select(batch.c.claimed).where(batch.c.id == token.batch)).scalar_one())

    def close_batch(self, token: WriteToken, receipt: RangeReceipt) -> None:
        """Store the receipt; a repeated order is answered with it."""
        batch = self._db.t.batch
        with self._db.write() as c:
            prove(self._db, c, token)
            values = {"state": "DONE", "receipt": receipt.model_dump(), "last": receipt.last.model_dump_json()}
            c.execute(update(batch).where(batch.c.id == token.batch).values(**values))

    def unfinished_batches(self, instance: str, round_: int) -> Sequence[int]:
        """Return batches that earlier rounds left open, or that hold claimed marks whose files were not all tried."""
        mark, batch = self._db.t.mark, self._db.t.batch
        left_open = select(batch.c.id).where(
            batch.c.instance == instance, batch.c.state == "OPEN", batch.c.round != round_
        )
        # This round's own ranges are finished by their own retries.
        holding = (
            select(mark.c.batch)
            .join(batch, batch.c.id == mark.c.batch)
            .where(batch.c.round != round_)
            .where(mark.c.instance == instance, mark.c.state == "CLAIMED", mark.c.swept_at.is_(None))
            .where(mark.c.quarantined_reason.is_(None), mark.c.absorbed.is_(False))
        )
        with self._db.read() as c:
            return sorted(c.execute(left_open.union(holding)).scalars())

    def end_batch(self, token: WriteToken) -> None:
        """Close a batch that was taken over; nobody waits for its receipt."""
        batch = self._db.t.batch
        with self._db.write() as c:
            prove(self._db, c, token)
            c.execute(update(batch).where(batch.c.id == token.batch).values(state="DONE"))

    def take_over(self, batch: int, order: AdoptOrder, attempt: int) -> WriteToken:
        """Make an earlier round's batch ours; what failed is tried again."""
        token = WriteToken(batch=batch, round=order.round, lease=order.lease, attempt=attempt)
        with self._db.write() as c:
            return self._seize(c, token)

    def take_late(self, token: WriteToken, after: Ref, limit: int) -> Sequence[DueMark]:
        """Bring swept prefix marks whose upload grace has passed into this batch, to be listed once more."""
        mark, db = self._db.t.mark, self._db
        with db.write() as c:
            now = db.now(c)
            prove(db, c, token, now=now)
            ripe = (
                select(mark)
                .where(mark.c.instance == token.instance, mark.c.state == "CLAIMED", mark.c.swept_at.is_not(None))
                .where(mark.c.quarantined_reason.is_(None), mark.c.next_try_at <= now)
                .where(_after(mark.c.kind, mark.c.id, after))
                .order_by(mark.c.kind, mark.c.id)
                .limit(limit)
            )
            marks = [due_mark(row) for row in c.execute(ripe)]
            c.execute(
                update(mark)
                .where(mark.c.instance == token.instance, among(db, mark, [m.ref for m in marks]))
                .values(batch=token.batch, lease_epoch=token.lease.epoch)
            )
            return marks

    def claimed_refs(self, token: WriteToken, after: Ref, limit: int) -> Sequence[Ref]:
        """Return claimed, unquarantined marks of the batch in order of kind and id, but for absorbed ones."""
        mark = self._db.t.mark
        with self._db.read() as c:
            found = c.execute(
                select(mark.c.kind, mark.c.id)
                .where(mark.c.instance == token.instance, mark.c.state == "CLAIMED", mark.c.batch == token.batch)
                .where(mark.c.quarantined_reason.is_(None), mark.c.swept_at.is_(None), mark.c.absorbed.is_(False))
                .where(_after(mark.c.kind, mark.c.id, after))
                .order_by(mark.c.kind, mark.c.id)
                .limit(limit)
            )
            return [Ref(*row) for row in found]

    def due(self, instance: str, kind: str, cutoff: int, after: Cursor, limit: int) -> Sequence[DueMark]:
        """Return the next due marks after the cursor, in the order they fell due; an index range, nothing else."""
        mark = self._db.t.mark
        with self._db.read() as c:
            found = c.execute(
                select(mark)
                .where(mark.c.instance == instance, mark.c.kind == kind, mark.c.state != "CLAIMED")
                .where(mark.c.quarantined_reason.is_(None), mark.c.ages_from <= cutoff)
                .where(_after(mark.c.ages_from, mark.c.id, (after.ages_from, after.id)))
                .order_by(mark.c.ages_from, mark.c.id)
                .limit(limit)
            )
            return [due_mark(row) for row in found]

    def quarantine(self, token: WriteToken, problems: Sequence[Unresolvable]) -> None:
        """Set marks aside with a reason; their state does not change.

        Only as they were seen (an owner may have marked the same id anew), and never waiting for an owner's
        transaction: what it holds this moment is looked at in the next round. A vault added meanwhile is no problem.
        """
        if not problems:
            return
        mark, vault, db = self._db.t.mark, self._db.t.vault, self._db
        found = {p.mark.ref: p for p in problems}
        with deciding(db, token.instance) as c:  # registering a vault frees the marks that wait for it, under the guard
            prove(db, c, token)
            named = and_(mark.c.instance == token.instance, among(db, mark, found))
            rows = select(mark.c.kind, mark.c.id, mark.c.ages_from, mark.c.vault, mark.c.state).where(named)
            known = set(c.execute(select(vault.c.name).where(vault.c.instance == token.instance)).scalars())
            for row in c.execute(rows.with_for_update(skip_locked=True)).all():
                ref = Ref(row.kind, row.id)
                problem = found[ref]
                same = (row.ages_from, row.vault) == (problem.mark.ages_from, problem.mark.vault)
                if not same or (problem.reason is Reason.UNKNOWN_VAULT and row.vault in known):
                    continue
                c.execute(
                    update(mark)
                    .where(mark.c.instance == token.instance, mark.c.kind == ref.kind, mark.c.id == ref.id)
                    .values(quarantined_reason=problem.reason, last_error=problem.detail[:1000])
                )

    def retry_failed(self, instance: str) -> None:
        """Bring back claimed marks set aside for failed deletes, once a day: the cause may have been mended."""
        mark = self._db.t.mark
        with self._db.write() as c:
            poison = and_(mark.c.state == "CLAIMED", mark.c.quarantined_reason == Reason.DELETE_FAILED)
            c.execute(
                update(mark)
                .where(mark.c.instance == instance, poison, mark.c.next_try_at <= self._db.now(c))
                .values(quarantined_reason=None)
            )

    def _seize(self, c: Connection, token: WriteToken) -> WriteToken:
        """Make the batch ours if nobody newer has it, and return the hand that may write for it.

        Files of marks it never claimed are forgotten, failures are tried again.
        What a second look found at a swept prefix was perhaps not tested against the holders: unless it is done it is
        forgotten too, and listed and tested anew.
        """
        batch, file, mark = self._db.t.batch, self._db.t.mark_file, self._db.t.mark
        older = (batch.c.lease_epoch < token.lease.epoch) | (
            (batch.c.lease_epoch == token.lease.epoch) & (batch.c.attempt <= token.attempt)
        )
        ours = {"lease_epoch": token.lease.epoch, "attempt": token.attempt, "opens": batch.c.opens + 1}
        opened = update(batch).where(batch.c.id == token.batch, older).values(**ours).returning(batch.c.opens)
        token = token.model_copy(update={"opens": c.execute(opened).scalar_one_or_none() or 0})
        prove(self._db, c, token)
        claimed = exists().where(
            mark.c.instance == file.c.instance,
            mark.c.kind == file.c.kind,
            mark.c.id == file.c.id,
            mark.c.state == "CLAIMED",
            mark.c.batch == file.c.batch,
            or_(mark.c.swept_at.is_(None), file.c.outcome.in_(DONE)),
        )
        c.execute(delete(file).where(file.c.batch == token.batch, ~claimed))
        c.execute(
            update(file)
            .where(file.c.batch == token.batch, file.c.outcome == KeyOutcome.FAILED)
            .values(outcome=None, reason=None)
        )
        return token

    def kinds(self, instance: str) -> Sequence[str]:
        """Return the kinds of marks that wait to fall due, by hopping through the index from kind to kind."""
        mark = self._db.t.mark
        waiting = and_(mark.c.instance == instance, mark.c.state != "CLAIMED", mark.c.quarantined_reason.is_(None))
        hop = select(func.min(mark.c.kind).label("kind")).where(waiting).cte("hop", recursive=True)
        step = select(func.min(mark.c.kind)).where(waiting, mark.c.kind > hop.c.kind).scalar_subquery()
        hop = hop.union_all(select(step).where(hop.c.kind.is_not(None)))
        with self._db.read() as c:
            return list(c.execute(select(hop.c.kind).where(hop.c.kind.is_not(None))).scalars())
