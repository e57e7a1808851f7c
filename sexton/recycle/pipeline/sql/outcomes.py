"""Store the outcome of each file, page by page; read outcomes for the log of deletions."""

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import sum_of
from sexton.kernel.crash_points import reached
from sexton.marks.file_list import FileList
from sexton.marks.file_results import OUTCOMES
from sexton.marks.model import FilePage, Ref, Span, WriteToken
from sexton.marks.sql.file_lists import in_span, read_lists, save_results
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.sql.batches import add_to_round, verify
from sexton.recycle.pipeline.sql.files import own_spans
from sexton.storage.model import KeyResult

AUDITED_AT_ONCE = 10_000
RECORD_TRIES = 3
"""Tries to store outcomes while another transaction has a lock: a file without outcome is reported absent later."""


class OutcomeStore:
    """Outcomes of deletes, in file lists."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> None:
        """Store one page's outcomes, in one transaction; they only move towards done.

        A throttled key stays untried, so the same round tries it again.
        """
        by_number = dict(zip(page.seqs, results, strict=True))
        for tries_left in reversed(range(RECORD_TRIES)):
            try:
                with self._db.write() as tx:
                    verify(tx, token, shared=True)
                    if by_number:
                        self._record(tx, token, by_number)
                break
            except OperationalError as e:  # a take-over has locked the batch's row
                if not (tries_left and is_locked(e)):
                    raise
        reached("outcomes.recorded")

    def _record(self, tx: Connection, token: WriteToken, by_number: Mapping[int, KeyResult]) -> None:
        """Store outcomes in the lists that contain these numbers, and count in the round what is gone now."""
        span = in_span(self._db, Span(token.batch, min(by_number) - 1, max(by_number)))
        for files in read_lists(self._db, tx, span, lock=True):
            counts = files.record(by_number, token.round)
            save_results(self._db, tx, files)
            add_to_round(self._db, tx, token.round, counts)

    def deleted_so_far(self, token: WriteToken, kind: str) -> dict[str, int]:
        """Return ``removed`` marks, and ``objects`` and ``bytes`` deleted, of a kind in the token's round so far."""
        t = self._db.t.tally
        size = t.c.bytes_freed + t.c.bytes_estimated
        sums = {"removed": t.c.removed, "objects": t.c.deleted + t.c.hidden, "bytes": size}
        of_kind = select(*[sum_of(column).label(name) for name, column in sums.items()])
        with self._db.read() as tx:
            row = tx.execute(of_kind.where(t.c.round == token.round, t.c.kind == kind)).one()
        return {name: int(number) for name, number in row._mapping.items()}

    def of_marks(self, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Sequence[AuditRow]]:
        """Yield the outcomes of the marks' files in this batch, some thousands at a time, for the log of deletions."""
        with self._db.read() as tx:
            spans = own_spans(self._db, tx, token, refs)
        for span in spans:
            yield from self._outcomes(token, span, frozenset(refs))

    def between(self, token: WriteToken, after: int, to: int) -> Iterator[Sequence[AuditRow]]:
        """Yield the outcomes of the batch's files numbered above ``after``, up to ``to``, but for damaged lists.

        The marks of a damaged list are not settled: what was deleted of them is logged when the list is restored.
        """
        yield from self._outcomes(token, Span(token.batch, after, to), None)

    def tried_between(self, token: WriteToken, after: int, to: int) -> int:
        """Return how many of the batch's files numbered above ``after``, up to ``to``, have an outcome."""
        with self._db.read() as tx:
            lists = read_lists(self._db, tx, in_span(self._db, Span(token.batch, after, to)), skip_damaged=True)
            return sum(files.count(OUTCOMES, after=after, to=to) for files in lists)

    def _outcomes(self, token: WriteToken, span: Span, refs: frozenset[Ref] | None) -> Iterator[Sequence[AuditRow]]:
        """Yield rows of the log of deletions, enough at once for a file of the log.

        What an earlier round deleted is logged as of that round, which may have ended before it logged all of it.
        """
        rows: list[AuditRow] = []
        t, after = self._db.t.round, span.after
        while (page := self._read_page(span._replace(after=after), skip_damaged=refs is None)) is not None:
            now, files = page
            after = files.last
            tried = [f for f in files.files(refs) if f.outcome is not None and span.after < f.number <= span.to]
            ends: dict[int, int] = {}  # no earlier round works beside this one
            if earlier := sorted({f.origin.round for f in tried} - {token.round}):
                ended = select(t.c.id, t.c.ended_at).where(t.c.id.in_(earlier), t.c.ended_at.is_not(None))
                with self._db.read() as tx:
                    ends = {row.id: row.ended_at for row in tx.execute(ended)}
            rows += [
                AuditRow(
                    ends.get(f.origin.round, now), token.instance, f.origin.round, f.origin.batch, f.number, *f.ref,
                    f.vault, f.key, f.bytes, str(f.outcome), f.reason,
                )
                for f in tried
            ]  # fmt: skip
            if len(rows) >= AUDITED_AT_ONCE:
                yield rows
                rows = []
        if rows:
            yield rows

    def _read_page(self, span: Span, *, skip_damaged: bool) -> tuple[int, FileList] | None:
        """Return the next list of a span, and the time; None: there is none. In a transaction of its own."""
        with self._db.read() as tx:
            lists = read_lists(self._db, tx, in_span(self._db, span), at_once=1, skip_damaged=skip_damaged)
            files = next(lists, None)
            return None if files is None else (self._db.now(tx), files)
