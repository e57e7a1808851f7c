"""Store the outcome of each file, page by page; read outcomes for the log of deletions."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    Update,
    and_,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import as_rows, in_list
from sexton.kernel.crash_points import reached
from sexton.marks.model import DeletedSoFar, FilePage, Ref, WriteToken
from sexton.marks.sql.rows import refs_in
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.sql.write_token import verify
from sexton.storage.model import KeyOutcome, KeyResult

AUDITED_AT_ONCE = 10_000
RECORD_TRIES = 3
"""Tries to store outcomes while another transaction has a lock: a file without outcome is reported absent later."""


class OutcomeStore:
    """Outcomes of deletes, as columns of ``mark_file``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one transaction; they only move towards done.

        A throttled key stays undone, so the same round tries it again.
        """
        updates = self._updates(token, page, results)
        for tries_left in reversed(range(RECORD_TRIES)):
            try:
                with self._db.write() as tx:
                    verify(self._db, tx, token, shared=True)
                    for statement in updates:
                        tx.execute(statement)
                break
            except OperationalError as e:  # a take-over has locked the batch's row, or on SQLite a writer the file
                if not (tries_left and is_locked(e)):
                    raise
        reached("outcomes.recorded")

    def _updates(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> list[Update]:
        """Return one UPDATE for each outcome without details, and one for all that have a reason or a measured size."""
        db, file = self._db, self._db.t.mark_file
        undone = or_(file.c.outcome.is_(None), file.c.outcome == KeyOutcome.FAILED)
        of_batch = and_(file.c.batch == token.batch, undone)
        plain: dict[str, list[int]] = {}
        detailed: list[dict[str, Any]] = []
        for seq, result in zip(page.seqs, results, strict=True):
            if result.outcome is KeyOutcome.THROTTLED:
                continue
            if result.bytes is None and not result.reason:
                plain.setdefault(result.outcome, []).append(seq)
            else:
                reason = result.reason[:500] or None
                detailed.append({"seq": seq, "outcome": result.outcome, "reason": reason, "bytes": result.bytes})
        updates = [
            update(file).where(of_batch, in_list(db, file.c.seq, seqs)).values(outcome=outcome, reason=None)
            for outcome, seqs in plain.items()
        ]
        if detailed:
            given = as_rows(db, detailed, seq=BigInteger(), outcome=Text(), reason=Text(), bytes=BigInteger())
            values = {"outcome": given.c.outcome, "reason": given.c.reason}
            measured = func.coalesce(given.c.bytes, file.c.bytes)
            updates.append(update(file).where(of_batch, file.c.seq == given.c.seq).values(**values, bytes=measured))
        return updates

    def deleted_so_far(self, token: WriteToken, kind: str) -> DeletedSoFar:
        """Return what the token's round has deleted of a kind so far."""
        t = self._db.t.tally
        sums = [t.c.removed, t.c.deleted + t.c.hidden, t.c.bytes_freed + t.c.bytes_estimated]
        of_kind = select(*[func.coalesce(func.sum(n), 0) for n in sums])
        with self._db.read() as tx:
            row = tx.execute(of_kind.where(t.c.round == token.round, t.c.kind == kind)).one()
        return DeletedSoFar(*(int(n) for n in row))

    def of_marks(self, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Sequence[AuditRow]]:
        """Yield the outcomes of the marks' files, some thousands at a time, for the log of deletions.

        Under the batch that tried them: a second pass that was cut short is logged by the batch that finishes it.
        """
        if refs:
            file = self._db.t.mark_file
            of_marks = and_(file.c.instance == token.instance, refs_in(self._db, file, refs))
            yield from self._pages(token, of_marks, (0, 0))

    def between(self, token: WriteToken, after: int, to: int) -> Iterator[Sequence[AuditRow]]:
        """Yield the outcomes of the batch's files numbered above ``after``, up to ``to``."""
        file = self._db.t.mark_file
        yield from self._pages(token, and_(file.c.batch == token.batch, file.c.seq <= to), (token.batch, after))

    def tried_between(self, token: WriteToken, after: int, to: int) -> int:
        """Return how many of the batch's files numbered above ``after``, up to ``to``, have an outcome."""
        file = self._db.t.mark_file
        tried = and_(file.c.batch == token.batch, file.c.seq > after, file.c.seq <= to, file.c.outcome.is_not(None))
        with self._db.read() as tx:
            return int(tx.execute(select(func.count()).select_from(file).where(tried)).scalar_one())

    def _pages(
        self, token: WriteToken, condition: ColumnElement[bool], after: tuple[int, int]
    ) -> Iterator[Sequence[AuditRow]]:
        db, file = self._db, self._db.t.mark_file
        names = ("batch", "seq", "kind", "id", "vault", "key", "bytes", "outcome")
        columns = [*(file.c[n] for n in names), func.coalesce(file.c.reason, "")]
        while True:
            beyond = tuple_(file.c.batch, file.c.seq) > tuple_(*(literal(n, BigInteger()) for n in after))
            page = select(*columns).where(condition, file.c.outcome.is_not(None), beyond)
            with db.read() as tx:
                at = db.now(tx)
                rows = tx.execute(page.order_by(file.c.batch, file.c.seq).limit(AUDITED_AT_ONCE)).all()
            if rows:
                after = (rows[-1].batch, rows[-1].seq)
                yield [AuditRow(at, token.instance, token.round, *row) for row in rows]
            if len(rows) < AUDITED_AT_ONCE:
                return
