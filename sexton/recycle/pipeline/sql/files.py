"""Store the exact files of a batch before the claim; read them in pages for the deletion."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Text, and_, delete, func, insert, literal, or_, select, true, update

from sexton.database.engine import Database
from sexton.database.rows import as_rows, in_list
from sexton.marks.model import CHUNK_MARKS, DONE, File, FilePage, MarkState, Ref, WriteToken
from sexton.marks.sql.rows import refs_in
from sexton.recycle.pipeline.port import DroppedFiles
from sexton.recycle.pipeline.sql.write_token import verify
from sexton.storage.model import PAGE_KEYS, KeyOutcome

DROP_FILES = 5_000
"""Files that a take-over checks in one transaction."""
READ_PAGES = 8
"""Pages read at once, so that the files of several vaults still make full pages."""


class Leftovers(NamedTuple):
    """Numbers of files to drop and to try again; how many undone files of second passes stay for now."""

    dropped: Sequence[int]
    retried: Sequence[int]
    unchecked: int


class FileStore:
    """Rows of ``mark_file``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def store(self, token: WriteToken, files: Sequence[File], beyond: int = 0) -> int:
        """Add resolved files to the batch and return the number of the last one.

        ``beyond``: a number that was used before. Numbers only grow during a range, although records of deleted files
        are removed meanwhile.
        """
        if not files:
            return beyond
        file, db = self._db.t.mark_file, self._db
        new_files = as_rows(
            db,
            ({"n": n, **f._asdict()} for n, f in enumerate(files, 1)),
            n=BigInteger(),
            kind=Text(),
            id=Text(),
            vault=Text(),
            key=Text(),
            bytes=BigInteger(),
            etag=Text(),
        )
        with db.write() as c:
            verify(db, c, token)
            last = select(func.coalesce(func.max(file.c.seq), 0)).where(file.c.batch == token.batch)
            base = max(beyond, c.execute(last).scalar_one())
            names = ("kind", "id", "vault", "key", "bytes", "etag")
            rows = select(
                literal(token.batch), new_files.c.n + base, literal(token.instance), *[new_files.c[n] for n in names]
            )
            c.execute(insert(file).from_select(["batch", "seq", "instance", *names], rows))
        return int(base) + len(files)

    def last_number(self, token: WriteToken) -> int:
        """Return the number of the last file that is stored in the batch."""
        file = self._db.t.mark_file
        with self._db.read() as c:
            last = select(func.coalesce(func.max(file.c.seq), 0)).where(file.c.batch == token.batch)
            return int(c.execute(last).scalar_one())

    def drop(self, token: WriteToken, refs: Iterable[Ref], *, of_earlier_batches: bool = False) -> None:
        """Drop undone files of marks that this batch did not claim, or that are listed again.

        ``of_earlier_batches``: also those that other batches stored for the marks, which are this batch's by now.
        """
        file, db = self._db.t.mark_file, self._db
        with db.write() as c:
            verify(db, c, token)
            undone = or_(file.c.outcome.is_(None), file.c.outcome == KeyOutcome.FAILED)
            of_batch = true() if of_earlier_batches else file.c.batch == token.batch
            of_marks = and_(file.c.instance == token.instance, of_batch, refs_in(db, file, refs))
            c.execute(delete(file).where(of_marks, undone))

    def drop_unclaimed(self, token: WriteToken, after: int, *, second_pass: bool) -> DroppedFiles | None:
        """Drop what an older attempt left among some thousand files of the batch, numbered above ``after``.

        Files of marks that the batch never claimed are dropped; failed deletes are tried again. Keepers may not have
        checked files of a second pass yet: of these, undeleted ones are dropped too, to be listed and checked again,
        but only with ``second_pass``.
        """
        db, file = self._db, self._db.t.mark_file
        page = select(file.c.seq, file.c.kind, file.c.id, file.c.outcome).where(file.c.batch == token.batch)
        with db.write() as tx:
            verify(db, tx, token)
            rows = tx.execute(page.where(file.c.seq > after).order_by(file.c.seq).limit(DROP_FILES)).all()
            if not rows:
                return None
            claimed = self._claimed(tx, token, {Ref(row.kind, row.id) for row in rows})
            leftovers = sort_leftovers(rows, claimed, second_pass=second_pass)
            of_batch = file.c.batch == token.batch
            if leftovers.dropped:
                tx.execute(delete(file).where(of_batch, in_list(db, file.c.seq, leftovers.dropped)))
            if leftovers.retried:
                retried = update(file).where(of_batch, in_list(db, file.c.seq, leftovers.retried))
                tx.execute(retried.values(outcome=None, reason=None))
        return DroppedFiles(rows[-1].seq, leftovers.unchecked)

    def pages(self, token: WriteToken, after: int, to: int) -> Sequence[FilePage]:
        """Return the next undone files of *claimed* marks of the batch, numbered above ``after``, up to ``to``.

        A few pages of at most 1,000 keys each.
        """
        db, file = self._db, self._db.t.mark_file
        of_batch = and_(file.c.batch == token.batch, file.c.seq <= to, file.c.outcome.is_(None))
        columns = (file.c.seq, file.c.kind, file.c.id, file.c.vault, file.c.key, file.c.etag)
        rows_query = select(*columns).where(of_batch).order_by(file.c.seq).limit(READ_PAGES * PAGE_KEYS)
        with db.snapshot() as tx:  # one moment: a file that was dropped is not read with the claim that came after
            while rows := tx.execute(rows_query.where(file.c.seq > after)).all():
                claimed = self._claimed(tx, token, {Ref(row.kind, row.id) for row in rows})
                quarantined = {ref for ref, mark in claimed.items() if mark.quarantined_reason is not None}
                deleted_now = claimed.keys() - quarantined
                if claimed_rows := [row for row in rows if (row.kind, row.id) in deleted_now]:
                    return _pages_by_vault(claimed_rows)
                after = rows[-1].seq
        return []

    def _claimed(self, tx: Connection, token: WriteToken, refs: Collection[Ref]) -> dict[Ref, Any]:
        """Return the rows of those of these marks that the batch has claimed.

        Files and marks are read by two queries and not by a join. Statistics of tables whose rows are seconds old say
        that no mark is claimed; a planner that believes them reads all marks again for each file.
        """
        mark = self._db.t.mark
        columns = (mark.c.kind, mark.c.id, mark.c.first_pass_at, mark.c.quarantined_reason)
        is_claimed = and_(
            mark.c.instance == token.instance, mark.c.state == MarkState.CLAIMED, mark.c.batch == token.batch
        )
        claimed: dict[Ref, Any] = {}
        ordered = sorted(refs)
        for start in range(0, len(ordered), CHUNK_MARKS):
            is_one = refs_in(self._db, mark, ordered[start : start + CHUNK_MARKS])
            claimed.update(
                (Ref(row.kind, row.id), row) for row in tx.execute(select(*columns).where(is_claimed, is_one))
            )
        return claimed


def sort_leftovers(rows: Iterable[Any], claimed: Mapping[Ref, Any], *, second_pass: bool) -> Leftovers:
    """Sort the files that an older attempt left by what a take-over does with them. Pure.

    Args:
        rows: files with seq, kind, id and outcome.
        claimed: rows of the marks that the batch has claimed, with ``first_pass_at``.
        second_pass: drop undone files of marks in their second pass too.
    """
    dropped, retried, unchecked = [], [], 0
    for row in rows:
        mark = claimed.get(Ref(row.kind, row.id))
        if mark is None:
            dropped.append(row.seq)
        elif mark.first_pass_at is None:
            if row.outcome == KeyOutcome.FAILED:
                retried.append(row.seq)
        elif row.outcome not in DONE:
            if second_pass:
                dropped.append(row.seq)
            else:
                unchecked += 1
    return Leftovers(dropped, retried, unchecked)


def _pages_by_vault(rows: Sequence[Any]) -> list[FilePage]:
    """Return rows of files as pages of at most ``PAGE_KEYS`` keys, each of one vault. Pure."""
    pages = []
    for vault, group in groupby(sorted(rows, key=lambda r: (r.vault, r.seq)), key=lambda r: str(r.vault)):
        of_vault = list(group)
        for start in range(0, len(of_vault), PAGE_KEYS):
            part = of_vault[start : start + PAGE_KEYS]
            pages.append(FilePage(vault, [r.seq for r in part], [r.key for r in part], [r.etag for r in part]))
    return pages
