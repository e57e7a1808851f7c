"""Store the exact files of a batch before the claim, and the outcome of each; read both, page by page.

The deletion reads files, the log of deletions reads outcomes.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, func, or_, select, update
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import in_list, sum_of
from sexton.kernel.crash_points import reached
from sexton.marks.file_list import FileList, ListedFile, lists_of
from sexton.marks.file_results import UNDONE_CODES, DamagedList
from sexton.marks.model import CHUNK_MARKS, DONE, File, FilePage, MarkState, Reason, Ref, Span, WriteToken
from sexton.marks.sql.file_lists import (
    add_list,
    damage_of,
    drop_files,
    find_spans,
    in_span,
    read_lists,
    remove_damaged_lists,
    save_results,
)
from sexton.marks.sql.rows import refs_in
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql.batches import add_to_round, verify
from sexton.storage.model import KeyOutcome, KeyResult

log = logging.getLogger(__name__)


class DroppedFiles(NamedTuple):
    """A page of files that a take-over checked: the number of its last file, and the undone second-pass files kept."""

    last: int
    unchecked: int


class Leftovers(NamedTuple):
    """Numbers of files to drop and to try again; how many undone files of second passes stay for now."""

    dropped: Sequence[int]
    retried: Sequence[int]
    unchecked: int


class FileStore:
    """The exact files of marks, in lists."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def store(self, token: WriteToken, files: Sequence[File], beyond: int = 0) -> int:
        """Add resolved files to the batch and return the number of the last one.

        ``beyond``: a number that was used before. Numbers only grow during a range, although lists of deleted files
        are removed meanwhile.
        """
        if not files:
            return beyond
        with self._db.write() as tx:
            verify(tx, token)
            first = max(beyond, _last_number(self._db, tx, token)) + 1
            for files_of_list in lists_of(token.batch, first, files):
                add_list(self._db, tx, token.instance, files_of_list)
            listed = Counter((file.kind, file.vault) for file in files)
            counts = {kind_and_vault: {"listed": number} for kind_and_vault, number in listed.items()}
            add_to_round(self._db, tx, token.round, counts)
            return first + len(files) - 1

    def count_adopted(
        self,
        batch: int,
        order: AdoptOrder,
        verify_lease: Callable[[Connection], None],
        keep_alive: Callable[[], None],
    ) -> None:
        """Count in a round the files that an earlier one left of the marks that it claimed: once for each batch.

        ``verify_lease``: raises ``LeaseLost``; called in the transaction that stores the counts. ``keep_alive`` is
        called between two lists: a batch may have thousands, and no lock is held meanwhile.
        """
        t, counts = self._db.t.batch, Counter[tuple[str, str]]()
        token = WriteToken(batch=batch, round=order.round, lease=order.lease, attempt=0)  # writes nothing of the batch
        uncounted = and_(t.c.id == batch, t.c.adopted_by != order.round)
        with self._db.read() as tx:
            if tx.execute(select(t.c.id).where(uncounted)).one_or_none() is None:
                return
            for files in read_lists(self._db, tx, in_span(self._db, Span(batch)), skip_damaged=True):
                keep_alive()
                claimed, codes = claimed_marks(self._db, tx, token, files.refs).items(), files.results.codes
                # Files of second passes are listed again.
                left = {ref for ref, m in claimed if m.first_pass_at is None and m.quarantined_reason is None}
                for run in files.runs_of(left):
                    undone = sum(codes.count(code, run.start, run.end) for code in UNDONE_CODES)
                    counts[run.ref.kind, run.vault] += undone
        with self._db.write() as tx:
            verify_lease(tx)
            if tx.execute(update(t).where(uncounted).values(adopted_by=order.round)).rowcount:
                add_to_round(self._db, tx, order.round, {place: {"adopted": n} for place, n in counts.items() if n})

    def last_number(self, token: WriteToken) -> int:
        """Return the number of the last file that is stored in the batch."""
        with self._db.read() as tx:
            return _last_number(self._db, tx, token)

    def drop(self, token: WriteToken, refs: Iterable[Ref], after: int = 0) -> None:
        """Drop undone files of marks that this batch did not claim, or that are listed again.

        ``after``: of files that have higher numbers.
        """
        with self._db.write() as tx:
            verify(tx, token)
            drop_files(self._db, tx, Span(token.batch, after), refs, tuple(UNDONE_CODES))

    def drop_unclaimed(self, token: WriteToken, after: int, *, second_pass: bool) -> DroppedFiles | None:
        """Drop what an older attempt left among some thousand files of the batch, numbered above ``after``.

        Files of marks that the batch never claimed are dropped; failed deletes are tried again. Keepers may not have
        checked files of a second pass yet: of these, undeleted ones are dropped too, to be listed and checked again,
        but only with ``second_pass``.
        """
        db = self._db
        try:
            with db.write() as tx:
                verify(tx, token)
                files = next(read_lists(db, tx, in_span(db, Span(token.batch, after)), lock=True, at_once=1), None)
                if files is None:
                    return None
                claimed = claimed_marks(db, tx, token, files.refs)
                leftovers = sort_leftovers(files.files(), claimed, second_pass=second_pass)
                for number in leftovers.dropped:
                    files.results.drop(number - files.first)
                for number in leftovers.retried:
                    files.results.retry(number - files.first)
                if leftovers.dropped or leftovers.retried:
                    save_results(db, tx, files)
        except DamagedList:  # the list is no longer locked: marks are locked before lists, here as everywhere
            return self._give_up(token, after, second_pass=second_pass)
        return DroppedFiles(files.last, leftovers.unchecked)

    def _give_up(self, token: WriteToken, after: int, *, second_pass: bool) -> DroppedFiles:
        """Quarantine the marks whose first pass needs a damaged list; remove the list if there is none.

        Without ``second_pass`` marks after their first pass are counted: a request for a file may be on its way.
        """
        db, t, mark = self._db, self._db.t.file_list, self._db.t.mark
        one = select(t.c.first, t.c.last, t.c.files, t.c.results).where(in_span(db, Span(token.batch, after)))
        with db.write() as tx:
            verify(tx, token)
            row = tx.execute(one.order_by(t.c.last).limit(1)).one_or_none()
            if row is None or (damage := damage_of(token.batch, row)) is None:
                return DroppedFiles(after, unchecked=0)  # it was discarded or restored meanwhile: the next is read
            log.error("batch %d, files %d to %d: %s", token.batch, row.first, row.last, damage)
            is_claimed = and_(
                mark.c.instance == token.instance, mark.c.state == MarkState.CLAIMED, mark.c.batch == token.batch
            )
            overlaps = and_(is_claimed, mark.c.files_after < row.last, mark.c.last_file >= row.first)
            in_second_pass = select(func.count()).where(overlaps, mark.c.first_pass_at.is_not(None))
            if not second_pass and (unchecked := tx.execute(in_second_pass).scalar_one()):
                return DroppedFiles(row.last, unchecked)
            # Failed deletes are retried once a day: without their files the marks would count as deleted.
            is_tried_again = or_(mark.c.quarantined_reason.is_(None), mark.c.quarantined_reason == Reason.DELETE_FAILED)
            in_first_pass = and_(overlaps, mark.c.first_pass_at.is_(None), mark.c.absorbed.is_(False), is_tried_again)
            reason = {"quarantined_reason": Reason.FILES_UNREADABLE, "last_error": str(damage)[:1000]}
            tx.execute(update(mark).where(in_first_pass).values(**reason))
            remove_damaged_lists(db, tx, Span(token.batch, row.first - 1, row.last))
        return DroppedFiles(row.last, unchecked=0)

    def pages(self, token: WriteToken, after: int, to: int) -> Sequence[FilePage]:
        """Return the next untried files of *claimed* marks of the batch, numbered above ``after``, up to ``to``.

        A few pages of at most 1,000 keys each.
        """
        db = self._db
        with db.snapshot() as tx:  # one moment: a file that was dropped is not read with the claim that came after
            for files in read_lists(db, tx, in_span(db, Span(token.batch, after, to)), at_once=1, skip_damaged=True):
                claimed = claimed_marks(self._db, tx, token, files.refs)
                deleted_now = {ref for ref, mark in claimed.items() if mark.quarantined_reason is None}
                if pages := files.untried_pages(deleted_now, after, to):
                    return pages
        return []


def claimed_marks(db: Database, tx: Connection, token: WriteToken, refs: Collection[Ref]) -> dict[Ref, Any]:
    """Return the rows of those of these marks that the batch has claimed.

    The rows are selected by primary key alone: statistics of tables whose rows are seconds old say that no mark is
    claimed, and a planner that believes them reads every claimed mark of the batch instead.
    """
    mark = db.t.mark
    of_mark = ("kind", "id", "vault", "prefix", "bytes", "first_pass_at", "failures", "lacking")
    names = (*of_mark, "state", "batch", "files_after", "last_file", "quarantined_reason")
    of_instance = select(*(mark.c[name] for name in names)).where(mark.c.instance == token.instance)
    claimed: dict[Ref, Any] = {}
    ordered = sorted(refs)
    for start in range(0, len(ordered), CHUNK_MARKS):
        is_one = refs_in(mark, ordered[start : start + CHUNK_MARKS])
        of_token = (MarkState.CLAIMED, token.batch)
        rows = tx.execute(of_instance.where(is_one)).all()
        claimed |= {Ref(row.kind, row.id): row for row in rows if (row.state, row.batch) == of_token}
    return claimed


def own_spans(db: Database, tx: Connection, token: WriteToken, refs: Iterable[Ref]) -> Sequence[Span]:
    """Return where the token's own batch has the files of these marks."""
    return [span for span in find_spans(db, tx, token.instance, refs) if span.batch == token.batch]


def carry_over(db: Database, tx: Connection, token: WriteToken, refs_by_batch: Mapping[int, Collection[Ref]]) -> None:
    """Carry the done files of marks from earlier batches into this one; their undone files are dropped.

    A second pass that was cut short in an earlier round has deleted some files: the batch that finishes it logs them,
    as of the round that deleted them.
    """
    t = db.t.file_list
    with_lists = select(t.c.batch).distinct().where(in_list(t.c.batch, sorted(refs_by_batch)))
    for batch in sorted(tx.execute(with_lists).scalars()):
        refs = refs_by_batch[batch]
        remove_damaged_lists(db, tx, Span(batch))
        for files in read_lists(db, tx, in_span(db, Span(batch)), lock=True, skip_damaged=True):
            carried = set(refs) & files.refs
            if not carried:
                continue
            done = [f for f in files.files(carried) if f.outcome in DONE]
            if done:  # they are stored again, with their outcomes
                first = _last_number(db, tx, token) + 1
                again = [File(*f.ref, f.vault, f.key, f.bytes, stated=f.stated) for f in done]
                copy = FileList.of(token.batch, first, again)
                for position, file in enumerate(done):
                    copy.results.codes[position] = files.results.codes[file.number - files.first]
                    copy.results.origins[position] = file.origin
                add_list(db, tx, token.instance, copy)
            files.drop(carried)
            save_results(db, tx, files)


def _last_number(db: Database, tx: Connection, token: WriteToken) -> int:
    t = db.t.file_list
    return int(tx.execute(select(func.coalesce(func.max(t.c.last), 0)).where(t.c.batch == token.batch)).scalar_one())


def sort_leftovers(files: Iterable[ListedFile], claimed: Mapping[Ref, Any], *, second_pass: bool) -> Leftovers:
    """Sort the files that an older attempt left by what a take-over does with them. Pure.

    Args:
        files: the files of a list.
        claimed: rows of the marks that the batch has claimed, with ``first_pass_at``.
        second_pass: drop undone files of marks in their second pass too.
    """
    dropped, retried, unchecked = [], [], 0
    for file in files:
        mark = claimed.get(file.ref)
        if mark is None:
            dropped.append(file.number)
        elif mark.first_pass_at is None:
            if file.outcome is KeyOutcome.FAILED:
                retried.append(file.number)
        elif file.outcome not in DONE:
            if second_pass:
                dropped.append(file.number)
            else:
                unchecked += 1
    return Leftovers(dropped, retried, unchecked)


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

    def _outcomes(self, token: WriteToken, span: Span, refs: frozenset[Ref] | None) -> Iterator[Sequence[AuditRow]]:
        """Yield rows of the log of deletions, enough at once for a file of the log.

        What an earlier round deleted is logged as of that round, which may have ended before it logged all of it.
        """
        rows: list[AuditRow] = []
        t, after = self._db.t.round, span.after
        while True:
            with self._db.read() as tx:  # it ends before rows are yielded
                in_rest = in_span(self._db, span._replace(after=after))
                files = next(read_lists(self._db, tx, in_rest, at_once=1, skip_damaged=refs is None), None)
                if files is None:
                    break
                now = self._db.now(tx)
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
