"""What protections keep: the stored files of marks against what sync jobs have registered.

Asked outside the guard, as it may take long, and once more inside only where something was registered or ended since
(docs/adr/0016). Rows count from their commit on, whether their protection is sealed or not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal, or_, select, union_all

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.keepers import PROTECTION, UNREADABLE
from sexton.marks.model import Ref, WriteToken
from sexton.marks.sql.rows import among
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter

SIZES_AT_ONCE = 20
"""Lengths of prefixes in one statement; there are rarely more."""
FILES_AT_ONCE = 5_000
"""Files that are read to be asked of filters."""
FILTERS_KEPT = 32


class RegisterVersion(NamedTuple):
    """Grows or changes with whatever is registered or ended; ids are never used again."""

    number: int
    ids: int
    changes: int
    wide: int
    """Of them, those that register prefixes or a filter; of the others their rows say all."""


class ProtectionSnapshot(NamedTuple):
    """What was kept by protections as they stood; the files have numbers ``beyond`` one, if it is known."""

    version: RegisterVersion
    kept: Mapping[Ref, str]
    beyond: int | None = None


NOT_ASKED = ProtectionSnapshot(RegisterVersion(-1, -1, -1, -1), MappingProxyType({}))


class Protections:
    """Answers for the claims of one process; filters are read once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._filters: dict[tuple[int, str], Filter] = {}

    def ask(self, token: WriteToken, refs: Collection[Ref], beyond: int | None = None) -> ProtectionSnapshot:
        """Ask in a transaction of its own; ``beyond``: all stored files of the marks have higher numbers."""
        with self._db.read() as c:
            version = self.version(c, token.instance)
            return ProtectionSnapshot(version, self._kept(c, token, refs, version, beyond), beyond)

    def kept(
        self, c: Connection, token: WriteToken, refs: Collection[Ref], before: ProtectionSnapshot = NOT_ASKED
    ) -> Mapping[Ref, str]:
        """Return the marks that a protection keeps, each with its name; ``before`` holds where nothing changed."""
        version = self.version(c, token.instance)
        if version == before.version:
            return {ref: before.kept[ref] for ref in refs if ref in before.kept}
        return self._kept(c, token, refs, version, before.beyond)

    def version(self, c: Connection, instance: str) -> RegisterVersion:
        t = self._db.t.protection
        sums = (t.c.id, t.c.changes, case((self._wide(), 1), else_=0))
        all_ = select(func.count(), *(func.coalesce(func.sum(s), 0) for s in sums))
        row = c.execute(all_.where(t.c.instance == instance)).one()
        return RegisterVersion(*map(int, row))

    def _wide(self) -> ColumnElement[bool]:
        t = self._db.t.protection
        length = func.jsonb_array_length if self._db.dialect == "postgresql" else func.json_array_length
        return or_(t.c.filter.is_not(None), length(t.c.sizes) > 0)

    def _kept(
        self, c: Connection, token: WriteToken, refs: Collection[Ref], version: RegisterVersion, beyond: int | None
    ) -> dict[Ref, str]:
        found: dict[Ref, str] = {}
        if not version.number:
            return found
        its: Sequence[Any] = ()
        if version.wide:
            t = self._db.t.protection
            wanted = select(t.c.id, t.c.job, t.c.digest, t.c.sizes, t.c.filter.is_not(None).label("is_filter"))
            its = c.execute(wanted.where(t.c.instance == token.instance, self._wide()).order_by(t.c.id)).all()
        sizes: list[int | None] = [None, *sorted({int(size) for row in its for size in row.sizes})]
        mine, asked = self._mine(token, refs, beyond), set(refs)
        for start in range(0, len(sizes), SIZES_AT_ONCE):
            some = sizes[start : start + SIZES_AT_ONCE]
            rows = c.execute(union_all(*(self._covered(mine, size) for size in some))).all()
            jobs = self._jobs(c, {row.protection for row in rows})
            for row in rows:
                if (ref := Ref(row.kind, row.id)) in asked and row.protection in jobs:
                    found.setdefault(ref, name(jobs[row.protection]))
        for row in its:
            if row.is_filter:
                found |= self._filtered(c, token, [ref for ref in refs if ref not in found], row)
        return found

    def _jobs(self, c: Connection, protections: Set[int]) -> dict[int, str]:
        """Return whose they are; rows of one that ended cover nothing."""
        t = self._db.t.protection
        its = select(t.c.id, t.c.job).where(in_list(self._db, t.c.id, protections))
        return {row.id: row.job for row in c.execute(its)} if protections else {}

    def _covered(self, mine: ColumnElement[bool], size: int | None) -> Any:
        """Select marks with a file that is registered, or begins with a registered prefix of this many characters."""
        file, item = self._db.t.mark_file, self._db.t.protection_item
        key = file.c.key if size is None else func.substr(file.c.key, 1, literal(size))
        names = and_(item.c.instance == file.c.instance, item.c.vault == file.c.vault, item.c.key == key)
        same = and_(names, item.c.prefix == (size is not None))
        its = file.join(item, same)
        return select(file.c.kind, file.c.id, item.c.protection).select_from(its).where(mine).distinct()

    def _mine(self, token: WriteToken, refs: Collection[Ref], beyond: int | None = None) -> ColumnElement[bool]:
        """Return the condition that a file is one of the marks'; more may be found where it goes by numbers.

        A batch is of one instance. Were that named too, PostgreSQL would compare each file with all that a job has just
        registered in it, as long as its statistics know of none.
        """
        file = self._db.t.mark_file
        its = among(self._db, file, refs) if beyond is None else file.c.seq > beyond
        return and_(file.c.batch == token.batch, its)

    def _filtered(self, c: Connection, token: WriteToken, refs: Sequence[Ref], row: Any) -> dict[Ref, str]:
        """Ask a filter about each file; one that cannot be read may cover any of them."""
        if not refs:
            return {}
        try:
            filter_ = self._filter(c, row)
        except Invalid as e:
            return dict.fromkeys(refs, f"{UNREADABLE}{row.job}: {e}")
        found: dict[Ref, str] = {}
        for file in self._files(c, token, refs):
            ref = Ref(file.kind, file.id)
            if ref not in found and filter_.covers(file.vault, file.key):
                found[ref] = name(row.job)
        return found

    def _files(self, c: Connection, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Any]:
        file, after = self._db.t.mark_file, -1
        wanted = select(file.c.seq, file.c.kind, file.c.id, file.c.vault, file.c.key).where(self._mine(token, refs))
        while True:
            page = wanted.where(file.c.seq > after).order_by(file.c.seq).limit(FILES_AT_ONCE)
            rows = c.execute(page).all()
            yield from rows
            if len(rows) < FILES_AT_ONCE:
                return
            after = rows[-1].seq

    def _filter(self, c: Connection, row: Any) -> Filter:
        known = self._filters.get((row.id, row.digest))
        if known is None:
            t = self._db.t.protection
            data = c.execute(select(t.c.filter).where(t.c.id == row.id)).scalar_one_or_none()
            known = Filter.parse(data or b"")
            while len(self._filters) >= FILTERS_KEPT:
                self._filters.pop(next(iter(self._filters)))
            self._filters[row.id, row.digest] = known
        return known


def name(job: str) -> str:
    """Return what a protection is called wherever holders are named."""
    return f"{PROTECTION}{job}"
