"""Protections as a keeper: no file that a sync job has registered is deleted while the job copies it.

Files are compared outside the guard, as that may take long, and once more inside only where a protection was registered
or ended since (docs/adr/0016). Rows count from their commit on, whether their protection is sealed or not. For people,
``covering`` finds the protections of a few places.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, false, func, or_, select

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.marks.file_list import FileList, FileRun
from sexton.marks.kept import Blocker, Event, KeepReason, Kept
from sexton.marks.model import Candidate, Place, Ref, Span, WriteToken
from sexton.marks.sql.file_lists import in_span, read_lists
from sexton.marks.sql.keeper import Keeper
from sexton.protection.filter import Filter
from sexton.protection.model import Invalid, Protection, ProtectionSettings, ProtectionState
from sexton.protection.sql.store import ProtectionStore

FILTERS_CACHED = 32
MAX_KEYS = 100
"""Keys of one mark that are looked up."""
MAX_PROTECTIONS = 20
"""Protections that are returned at most."""
LAST_CHARACTER = "\U0010ffff"


class RegisterVersion(NamedTuple):
    """Changes with every protection that is registered or ended; ids are never used again."""

    number: int
    ids: int
    changes: int
    wide: int
    """How many of them register prefixes or a filter; the others are rows of exact keys."""


class ProtectionSnapshot(NamedTuple):
    """What protections blocked at one version of the register."""

    version: RegisterVersion
    blocked: Mapping[Ref, Kept]


class ProtectionKeeper(Keeper):
    """Judges candidates by protections; each filter is parsed once."""

    lists = KeepReason.PROTECTION

    def __init__(self, db: Database, settings: ProtectionSettings) -> None:
        self._db, self._settings = db, settings
        self._filters: dict[tuple[int, str], Filter] = {}

    def snapshot(self, token: WriteToken, refs: Collection[Ref], files: Span) -> ProtectionSnapshot:
        """Compare files and protections in a transaction of its own."""
        with self._db.read() as c:
            version = self._version(c, token.instance)
            return ProtectionSnapshot(version, self._blocked(c, token, refs, files, version))

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        files: Span,
        _now: int,
        snapshot: ProtectionSnapshot | None,
    ) -> Mapping[Ref, Kept]:
        """Return the candidates with a protected file; the snapshot answers if the register did not change."""
        refs = [candidate.ref for candidate in candidates]
        version = self._version(tx, token.instance)
        if snapshot is not None and version == snapshot.version:
            return {ref: snapshot.blocked[ref] for ref in refs if ref in snapshot.blocked}
        return self._blocked(tx, token, refs, files, version)

    def explain(self, instance: str, mark: Candidate) -> Iterator[Event]:
        """Yield the sync jobs' protections that cover any of the mark's files, each with its end."""
        for protection in covering(self._db, instance, mark.places):
            finished = protection.state is ProtectionState.SOFT
            if finished:
                until = f"finished, until the watermark is above {protection.valid_ts}"
            else:
                until = "until its job has finished"
            text = (
                f"kept by protection {protection.job} of {protection.owner}, {until}; "
                f"see: sexton protection list {instance}"
            )
            yield Event(at=protection.registered_at, event="protection", text=text, blocks=True)
            if not finished:
                text = f"protection {protection.job} expires unless its job renews it"
                yield Event(at=protection.expires_at, event="protection_ends", text=text)

    def in_force(self, instance: str) -> Iterator[Blocker]:
        """Yield the protections."""
        for p in ProtectionStore(self._db, self._settings).list_protections(instance):
            why = p.description or "sync job"
            if p.ends is not None:
                why = f"the next round ends it ({p.ends})"
            elif p.finished_at is not None:
                why = f"finished; waits for a watermark above {p.valid_ts}"
            objects = 0 if p.sealed is None else p.sealed.objects
            yield Blocker(
                instance=instance,
                held_by=str(Kept(KeepReason.PROTECTION, p.job)),
                what="the objects it registered" if p.sealed is None else f"{objects:,} object{'s' * (objects != 1)}",
                since=p.registered_at,
                until=None if p.state is ProtectionState.SOFT else p.expires_at,
                by=p.owner,
                why=why,
                way_out=f"sexton protection release {p.job} --reason TEXT --instance {instance}",
            )

    def _version(self, c: Connection, instance: str) -> RegisterVersion:
        t = self._db.t.protection
        columns = (t.c.id, t.c.changes, case((self._is_wide(), 1), else_=0))
        sums = select(func.count(), *(func.coalesce(func.sum(column), 0) for column in columns))
        row = c.execute(sums.where(t.c.instance == instance)).one()
        return RegisterVersion(*map(int, row))

    def _is_wide(self) -> ColumnElement[bool]:
        t = self._db.t.protection
        return or_(t.c.filter.is_not(None), func.jsonb_array_length(t.c.sizes) > 0)

    def _blocked(
        self, c: Connection, token: WriteToken, refs: Collection[Ref], files: Span, version: RegisterVersion
    ) -> dict[Ref, Kept]:
        if not version.number:
            return {}
        wide: Sequence[Any] = ()
        if version.wide:
            t = self._db.t.protection
            columns = select(t.c.id, t.c.job, t.c.digest, t.c.sizes, t.c.filter.is_not(None).label("is_filter"))
            wide = c.execute(columns.where(t.c.instance == token.instance, self._is_wide()).order_by(t.c.id)).all()
        blocked: dict[Ref, Kept] = {}
        for list_ in read_lists(self._db, c, in_span(self._db, files), at_once=1):
            unblocked = frozenset(refs) - blocked.keys()
            blocked |= self._by_items(c, token.instance, list_, unblocked, wide)
            for protection in wide:
                if protection.is_filter:
                    blocked |= self._by_filter(c, list_, unblocked - blocked.keys(), protection)
        return blocked

    def _by_items(
        self, c: Connection, instance: str, files: FileList, refs: frozenset[Ref], wide: Sequence[Any]
    ) -> dict[Ref, Kept]:
        """Return the marks with a file that is registered by its key, or by a prefix of one of the lengths in use."""
        lengths: list[int | None] = [None, *sorted({int(size) for row in wide for size in row.sizes})]
        blocked: dict[Ref, Kept] = {}
        runs_by_vault: dict[str, list[FileRun]] = {}
        for run in files.runs_of(refs):
            runs_by_vault.setdefault(run.vault, []).append(run)
        for vault, runs in runs_by_vault.items():
            keys = [(run.ref, key) for run in runs for key in files.keys_of(run)]
            for length in lengths:
                registered = self._registered(c, instance, vault, length, {key[:length] for _, key in keys})
                for ref, key in keys:
                    if (job := registered.get(key[:length])) is not None:
                        blocked.setdefault(ref, Kept(KeepReason.PROTECTION, job))
        return blocked

    def _registered(
        self, c: Connection, instance: str, vault: str, length: int | None, names: Collection[str]
    ) -> dict[str, str]:
        """Return those of these keys, or of these prefixes of one length, that are registered, each with the job."""
        item = self._db.t.protection_item
        of_vault = and_(item.c.instance == instance, item.c.vault == vault, item.c.prefix == (length is not None))
        items = select(item.c.key, item.c.protection).where(of_vault, in_list(item.c.key, names))
        rows = c.execute(items).all()
        if not rows:
            return {}
        t = self._db.t.protection
        is_registered = in_list(t.c.id, {row.protection for row in rows})
        jobs = {row.id: row.job for row in c.execute(select(t.c.id, t.c.job).where(is_registered))}
        # Rows of a protection that has ended cover nothing.
        return {row.key: jobs[row.protection] for row in rows if row.protection in jobs}

    def _by_filter(self, c: Connection, files: FileList, refs: frozenset[Ref], protection: Any) -> dict[Ref, Kept]:
        """Compare each file with a filter; one that cannot be read may cover any of them."""
        runs = list(files.runs_of(refs))
        if not runs:
            return {}
        try:
            filter_ = self._filter(c, protection)
        except Invalid as e:
            unreadable = Kept(KeepReason.PROTECTION_UNREADABLE, protection.job, str(e))
            return {run.ref: unreadable for run in runs}
        return {
            run.ref: Kept(KeepReason.PROTECTION, protection.job)
            for run in runs
            if any(filter_.covers(run.vault, key) for key in files.keys_of(run))
        }

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


def covering(db: Database, instance: str, places: Iterable[Place]) -> Sequence[Protection]:
    """Return protections that cover a key of the places, or anything under a prefix of them; the oldest first.

    An unreadable filter may cover anything. A readable filter is tested with the keys, and may cover any prefix.
    """
    t, item = db.t.protection, db.t.protection_item
    queried = [p if p.keys is None else p._replace(keys=p.keys[:MAX_KEYS]) for p in places]
    is_covering = or_(false(), *(_covers(db, place) for place in queried))
    ids = select(item.c.protection).where(item.c.instance == instance, is_covering)
    query = select(t).where(t.c.instance == instance, or_(t.c.id.in_(ids), t.c.filter.is_not(None)))
    with db.read() as c:
        rows = c.execute(query.order_by(t.c.id).limit(MAX_PROTECTIONS)).all()
    return [Protection(**row._mapping) for row in rows if row.filter is None or _may_cover(row.filter, queried)]


def _covers(db: Database, place: Place) -> ColumnElement[bool]:
    """Return the condition that a registered item covers a key of the place, or anything under its prefix."""
    item = db.t.protection_item
    if place.prefix is not None:
        names: Sequence[str] = (place.prefix,)
        # Not BETWEEN, whose bounds may have no COLLATE.
        is_within = and_(item.c.key >= place.prefix, item.c.key <= place.prefix + LAST_CHARACTER)
    else:
        names = place.keys or ()
        is_within = and_(item.c.prefix.is_(False), in_list(item.c.key, names))
    beginnings = sorted({name[:length] for name in names for length in range(1, len(name) + 1)})
    return and_(item.c.vault == place.vault, or_(is_within, and_(item.c.prefix, in_list(item.c.key, beginnings))))


def _may_cover(data: bytes, places: Sequence[Place]) -> bool:
    try:
        filter_ = Filter.parse(data)
    except Invalid:
        return True
    return any(place.keys is None or any(filter_.covers(place.vault, key) for key in place.keys) for place in places)
