"""Store the exact files of a batch before the claim; read them in pages for the deletion."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from sqlalchemy import BigInteger, Text, and_, delete, func, insert, literal, or_, select

from sexton.database.engine import Database
from sexton.database.rows import as_rows
from sexton.marks.model import File, FilePage, MarkState, Ref, WriteToken
from sexton.marks.sql.rows import refs_in
from sexton.recycle.pipeline.sql.write_token import verify
from sexton.storage.model import PAGE_KEYS, KeyOutcome

READ_PAGES = 8
"""Pages read at once, so that the files of several vaults still make full pages."""


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

    def drop(self, token: WriteToken, refs: Iterable[Ref]) -> None:
        """Drop undone files of marks that were not claimed, or that are listed again."""
        file, db = self._db.t.mark_file, self._db
        with db.write() as c:
            verify(db, c, token)
            undone = or_(file.c.outcome.is_(None), file.c.outcome == KeyOutcome.FAILED)
            c.execute(delete(file).where(file.c.instance == token.instance, undone, refs_in(db, file, refs)))

    def pages(self, token: WriteToken, after: int, to: int) -> Sequence[FilePage]:
        """Return the next undone files of *claimed* marks of the batch, numbered above ``after``, up to ``to``.

        A few pages of at most 1,000 keys each.
        """
        file, mark = self._db.t.mark_file, self._db.t.mark
        claimed = and_(
            mark.c.instance == file.c.instance,
            mark.c.kind == file.c.kind,
            mark.c.id == file.c.id,
            mark.c.state == MarkState.CLAIMED,
            mark.c.batch == file.c.batch,
            mark.c.quarantined_reason.is_(None),
        )
        with self._db.read() as c:
            rows = c.execute(
                select(file.c.vault, file.c.seq, file.c.key, file.c.etag)
                .join(mark, claimed)
                .where(file.c.batch == token.batch, file.c.seq > after, file.c.seq <= to, file.c.outcome.is_(None))
                .order_by(file.c.seq)
                .limit(READ_PAGES * PAGE_KEYS)
            ).all()
        pages = []
        for vault, group in groupby(sorted(rows, key=lambda r: (r.vault, r.seq)), key=lambda r: str(r.vault)):
            files = list(group)
            for start in range(0, len(files), PAGE_KEYS):
                part = files[start : start + PAGE_KEYS]
                pages.append(FilePage(vault, [r.seq for r in part], [r.key for r in part], [r.etag for r in part]))
        return pages
