"""Protections as a keeper: no file that a sync job has registered is deleted while the job copies it.

Files are compared outside the guard, as that may take long, and once more inside only where a protection was registered
or ended since (docs/adr/0016). Rows count from their commit on, whether their protection is sealed or not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal, or_, select, union_all

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.keepers import KeepReason, Kept
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.rows import refs_in
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter

SIZES_AT_ONCE = 20
"""Lengths of prefixes compared by one statement; there are rarely more."""
FILES_AT_ONCE = 5_000
"""Files read at once to be compared with filters."""
FILTERS_CACHED = 32


class RegisterVersion(NamedTuple):
    """Changes with every protection that is registered or ended; ids are never used again."""

    number: int
    ids: int
    changes: int
    wide: int
    """How many of them register prefixes or a filter; the others are rows of exact keys."""


class ProtectionSnapshot(NamedTuple):
    """What protections blocked at one version of the register, by files numbered above ``files_after`` where known."""

    version: RegisterVersion
    blocked: Mapping[Ref, Kept]
    files_after: int | None = None


NO_SNAPSHOT = ProtectionSnapshot(RegisterVersion(-1, -1, -1, -1), MappingProxyType({}))


class ProtectionKeeper:
    """Judges candidates by protections. Implements ``marks.sql.keeper.Keeper``; each filter is parsed once."""

    for_claims_only = False

    def __init__(self, db: Database) -> None:
        self._db = db
        self._filters: dict[tuple[int, str], Filter] = {}

    def snapshot(self, token: WriteToken, refs: Collection[Ref], files_after: int | None = None) -> ProtectionSnapshot:
        """Compare files and protections in a transaction of its own."""
        with self._db.read() as c:
            version = self._version(c, token.instance)
            return ProtectionSnapshot(version, self._blocked(c, token, refs, version, files_after), files_after)

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        _now: int,
        snapshot: ProtectionSnapshot | None,
    ) -> Mapping[Ref, Kept]:
        """Return the candidates with a protected file; the snapshot answers if the register did not change."""
        refs = [candidate.ref for candidate in candidates]
        snapshot = snapshot or NO_SNAPSHOT
        version = self._version(tx, token.instance)
        if version == snapshot.version:
            return {ref: snapshot.blocked[ref] for ref in refs if ref in snapshot.blocked}
        return self._blocked(tx, token, refs, version, snapshot.files_after)

    def on_claimed(self, _tx: Connection, _token: WriteToken, _claimed: Sequence[Candidate]) -> None:
        """Protections need not remember what was claimed."""

    def _version(self, c: Connection, instance: str) -> RegisterVersion:
        t = self._db.t.protection
        columns = (t.c.id, t.c.changes, case((self._is_wide(), 1), else_=0))
        sums = select(func.count(), *(func.coalesce(func.sum(column), 0) for column in columns))
        row = c.execute(sums.where(t.c.instance == instance)).one()
        return RegisterVersion(*map(int, row))

    def _is_wide(self) -> ColumnElement[bool]:
        t = self._db.t.protection
        length = func.jsonb_array_length if self._db.dialect == "postgresql" else func.json_array_length
        return or_(t.c.filter.is_not(None), length(t.c.sizes) > 0)

    def _blocked(
        self, c: Connection, token: WriteToken, refs: Collection[Ref], version: RegisterVersion, files_after: int | None
    ) -> dict[Ref, Kept]:
        if not version.number:
            return {}
        wide = self._wide_protections(c, token.instance) if version.wide else ()
        blocked = self._by_items(c, token, refs, wide, files_after)
        for protection in wide:
            if protection.is_filter:
                unblocked = [ref for ref in refs if ref not in blocked]
                blocked |= self._by_filter(c, token, unblocked, protection)
        return blocked

    def _wide_protections(self, c: Connection, instance: str) -> Sequence[Any]:
        t = self._db.t.protection
        columns = select(t.c.id, t.c.job, t.c.digest, t.c.sizes, t.c.filter.is_not(None).label("is_filter"))
        return c.execute(columns.where(t.c.instance == instance, self._is_wide()).order_by(t.c.id)).all()

    def _by_items(
        self, c: Connection, token: WriteToken, refs: Collection[Ref], wide: Sequence[Any], files_after: int | None
    ) -> dict[Ref, Kept]:
        """Return the marks with a file that is registered by its key, or by a prefix of one of the lengths in use."""
        sizes: list[int | None] = [None, *sorted({int(size) for row in wide for size in row.sizes})]
        of_batch, asked_refs = self._of_batch(token, refs, files_after), set(refs)
        blocked: dict[Ref, Kept] = {}
        for start in range(0, len(sizes), SIZES_AT_ONCE):
            page = sizes[start : start + SIZES_AT_ONCE]
            rows = c.execute(union_all(*(self._covered(of_batch, size) for size in page))).all()
            jobs = self._jobs(c, {row.protection for row in rows})
            for row in rows:
                if (ref := Ref(row.kind, row.id)) in asked_refs and row.protection in jobs:
                    blocked.setdefault(ref, Kept(KeepReason.PROTECTION, jobs[row.protection]))
        return blocked

    def _jobs(self, c: Connection, protections: Set[int]) -> dict[int, str]:
        """Return the job of each protection; rows of a protection that has ended cover nothing."""
        if not protections:
            return {}
        t = self._db.t.protection
        rows = c.execute(select(t.c.id, t.c.job).where(in_list(self._db, t.c.id, protections)))
        return {row.id: row.job for row in rows}

    def _covered(self, of_batch: ColumnElement[bool], size: int | None) -> Any:
        """Select marks with a file that is registered, or begins with a registered prefix of this many characters."""
        file, item = self._db.t.mark_file, self._db.t.protection_item
        key = file.c.key if size is None else func.substr(file.c.key, 1, literal(size))
        same_key = and_(item.c.instance == file.c.instance, item.c.vault == file.c.vault, item.c.key == key)
        registered = file.join(item, and_(same_key, item.c.prefix == (size is not None)))
        columns = select(file.c.kind, file.c.id, item.c.protection)
        return columns.select_from(registered).where(of_batch).distinct()

    def _of_batch(
        self, token: WriteToken, refs: Collection[Ref], files_after: int | None = None
    ) -> ColumnElement[bool]:
        """Return the condition that a file is one of the marks'; by numbers it may match more marks.

        A batch is of one instance. Were that named too, PostgreSQL would compare each file with all that a job has just
        registered in it, as long as its statistics know of none.
        """
        file = self._db.t.mark_file
        named = refs_in(self._db, file, refs) if files_after is None else file.c.seq > files_after
        return and_(file.c.batch == token.batch, named)

    def _by_filter(self, c: Connection, token: WriteToken, refs: Sequence[Ref], protection: Any) -> dict[Ref, Kept]:
        """Compare each file with a filter; one that cannot be read may cover any of them."""
        if not refs:
            return {}
        try:
            filter_ = self._filter(c, protection)
        except Invalid as e:
            return dict.fromkeys(refs, Kept(KeepReason.PROTECTION_UNREADABLE, protection.job, str(e)))
        blocked: dict[Ref, Kept] = {}
        for file in self._files(c, token, refs):
            ref = Ref(file.kind, file.id)
            if ref not in blocked and filter_.covers(file.vault, file.key):
                blocked[ref] = Kept(KeepReason.PROTECTION, protection.job)
        return blocked

    def _files(self, c: Connection, token: WriteToken, refs: Sequence[Ref]) -> Iterator[Any]:
        file, after = self._db.t.mark_file, -1
        columns = select(file.c.seq, file.c.kind, file.c.id, file.c.vault, file.c.key)
        files = columns.where(self._of_batch(token, refs))
        while True:
            rows = c.execute(files.where(file.c.seq > after).order_by(file.c.seq).limit(FILES_AT_ONCE)).all()
            yield from rows
            if len(rows) < FILES_AT_ONCE:
                return
            after = rows[-1].seq

    def _filter(self, c: Connection, protection: Any) -> Filter:
        key = (protection.id, protection.digest)
        parsed = self._filters.get(key)
        if parsed is None:
            t = self._db.t.protection
            data = c.execute(select(t.c.filter).where(t.c.id == protection.id)).scalar_one_or_none()
            parsed = Filter.parse(data or b"")
            while len(self._filters) >= FILTERS_CACHED:
                self._filters.pop(next(iter(self._filters)))
            self._filters[key] = parsed
        return parsed
