"""The owner ``sql``: a database that calls Sexton's SQL functions, and inserts its marks in its own transactions.

It may show which objects are live in a view that its instance names, with columns ``kind, id, vault, key`` (and
``instance``, where several name it): ``key`` is an object, or a prefix ending with a separator under which *everything*
is live. A mark that touches anything live is kept: an owner's mistake must not cost it data. Without the view there is
no such check.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Select, TableClause, and_, case, func, select
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database, first_line
from sexton.database.ranges import within
from sexton.kernel.errors import BadInput
from sexton.marks.keepers import NAMED_LIVE
from sexton.marks.live import LiveEntry, Part, short_key
from sexton.marks.model import DueMark, Expansion, Fenced, Place, Ref
from sexton.marks.policy import as_named
from sexton.operators.registry.store import Registry
from sexton.owners.port import COUNT_SECONDS, LiveParts, NoLiveSide, Owner, OwnerSilent
from sexton.owners.reading import STATEMENT_SECONDS, silent_on_error
from sexton.owners.sql import live_keys, live_moment, live_view, loose_keys
from sexton.owners.sql.live_keys import ViewNames
from sexton.owners.sql.live_marks import LiveMarks
from sexton.owners.sql.live_reading import OwnerSlow, reading
from sexton.owners.sql.live_view import is_about
from sexton.owners.sql.loose_keys import LooseKeys
from sexton.storage.model import VaultSpec

RECORD, ROWSET = "record", "rowset"
"""The group of a pattern that captures a file's record, and the kind under which a repair names it as a parent."""
SILENT = "the owner's records cannot be read"
OLDER = "the live view was last true before the mark was made; it is deleted after the next refresh"
SILENT_SECONDS = 300
"""How long a view is not read that did not answer in time, or was slow to fail; meanwhile every mark is kept."""
SLOW_SECONDS = 3
"""A look at a view that fails after so long counts as slow."""
RECHECK_SECONDS = 60
"""How long it is trusted at most that each row of the view means an object; less if a look is quick."""


Found = TypeVar("Found")


class _Meaning(NamedTuple):
    """What decides which objects the rows of a view mean."""

    definition: str
    vaults: Mapping[str, VaultSpec]


class _Look(NamedTuple, Generic[Found]):
    """What a look at a whole view found, for as long as neither the view nor a vault of the instance is another one."""

    found: Found
    meaning: _Meaning
    until: float

    def counts(self, meaning: _Meaning) -> bool:
        return self.meaning == meaning and time.monotonic() <= self.until


class SqlOwner(Owner):
    """The owner of a database whose own transactions insert its marks.

    It shows the live view to checks in parts, which are read in parallel, also on other machines, each object under one
    name: URLs are resolved here.
    """

    def __init__(self, db: Database, registry: Registry, max_age_seconds: int = live_moment.MAX_AGE_SECONDS) -> None:
        """Store the ports.

        Args:
            db: the owner's database, which is Sexton's too.
            registry: names the view and the vaults of each instance.
            max_age_seconds: how old a copy of the live view may be.
        """
        self._db, self._registry, self._max_age_seconds = db, registry, max_age_seconds
        self._names: dict[tuple[str, str], _Look[ViewNames]] = {}
        self._loose: dict[tuple[str, str], _Look[LooseKeys]] = {}
        self._silences: dict[str, tuple[str, float]] = {}

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        """Return the files that the marks name; of orphans also what their keys name as ancestors.

        No mark needs a fence, nor does an orphan's: the owner's commit removes it, or fails because it is claimed.
        """
        named = {mark.ref: as_named(mark, fence=False) for mark in marks}
        return named | _expand_orphans(self._db, instance, marks)

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Callable[[], None]
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Return FENCED for all: the owner's commit removes its own mark, or fails."""
        return {mark.ref: (Fenced.FENCED, "") for mark in marks}

    def live_objects(self, instance: str) -> int | None:
        """Return how many objects the view shows; None without a view, or where a row is a prefix.

        They are rows of the instance's vaults, and never more than the objects that the last complete check listed.

        Raises:
            OwnerSilent: the view cannot be read, or not in time.
        """
        try:
            if (name := live_view.named(self._db, self._registry.instance(instance))) is None:
                return None
            with reading(self._db, instance, name, seconds=COUNT_SECONDS, look_seconds=COUNT_SECONDS) as c:
                view = live_view.load(c, name)
                self._recent_as_of(c, view, instance)
                self._view_names(c, view, instance, self._meaning(c, view, instance))
                shown = self._count(c, view, instance)
            listed = self._listed_objects(instance)
            return shown if shown is None or listed is None else min(shown, listed)
        except SQLAlchemyError as e:
            raise OwnerSilent(f"the rows of the live view cannot be counted: {first_line(e)}") from e

    def _count(self, c: Connection, view: TableClause, instance: str) -> int | None:
        """Return how many rows the view shows; None: one of them is a prefix."""
        is_prefix = view.c.key.op("~")("[^A-Za-z0-9.-]$")
        prefixes = func.coalesce(func.sum(case((is_prefix, 1), else_=0)), 0)
        vaults = [spec.name for spec in self._registry.vaults(instance)]
        is_object = and_(is_about(view, instance), view.c.key.is_not(None), view.c.vault.in_(vaults))
        row_count, prefix_count = c.execute(select(func.count(), prefixes).select_from(view).where(is_object)).one()
        return None if prefix_count else int(row_count)

    def _listed_objects(self, instance: str) -> int | None:
        """Return how many objects the last complete check listed, which no row of a view can raise."""
        run = self._db.t.check_run
        complete = select(run.c.evidence).where(run.c.instance == instance, run.c.state == "WHOLE")
        with self._db.read() as own:
            evidence = own.execute(complete.order_by(run.c.id.desc()).limit(1)).scalar()
        if not evidence:
            return None
        return sum(int(listing.get("objects", 0) + listing.get("young", 0)) for listing in evidence["listings"])

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, str]:
        """Return the marks of which the view shows anything: by id, by key, or by prefix in either direction.

        Raises:
            OwnerSilent: the view cannot be read, or it is missing and marks were made by a check.
        """
        silence, until = self._silences.get(instance, ("", 0.0))
        if time.monotonic() < until:
            raise OwnerSilent(silence)
        began = time.monotonic()
        try:
            return self._live_refs(instance, marks, heartbeat)
        except (OwnerSilent, SQLAlchemyError) as e:
            silence = str(e) if isinstance(e, OwnerSilent) else f"the live view cannot be read: {first_line(e)}"
            # The marks of a large range must not each wait as long, in slots of other instances.
            if isinstance(e, OwnerSlow) or time.monotonic() - began > SLOW_SECONDS:
                silence += f"; a worker reads it again {SILENT_SECONDS} s later"
                self._silences[instance] = (silence, time.monotonic() + SILENT_SECONDS)
            raise OwnerSilent(silence) from e

    def _live_refs(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, str]:
        if (name := live_view.named(self._db, self._registry.instance(instance))) is None:
            if any(mark.etags for mark in marks):
                raise OwnerSilent(
                    f"{instance} has no live view, but marks were made by a check that read one; create it again, and "
                    f"name it: sexton instance live-view {instance} VIEW"
                )
            return {}
        with reading(self._db, instance, name) as c:
            view = live_view.load(c, name)
            as_of = self._recent_as_of(c, view, instance)
            meaning = self._meaning(c, view, instance)
            names = self._view_names(c, view, instance, meaning)
            loose = self._loose_keys(c, view, instance, meaning, heartbeat)
            reader = LiveMarks(self._db, c, view, is_about(view, instance), names, loose, heartbeat)
            refs = reader.by_id(marks) | reader.by_covering_key(marks) | reader.by_key_inside(marks)
            live_rows = {mark.ref: row for mark in marks if (row := loose.touched_by(mark))}
            live_rows |= {mark.ref: OLDER for mark in marks if live_moment.precedes(as_of, mark.retention_starts_at)}
            first = [mark for mark in marks if mark.ref in refs or mark.ref in live_rows][:NAMED_LIVE]
            named = {mark.ref: reader.rows_of(mark) if mark.ref in refs else live_rows[mark.ref] for mark in first}
            return dict.fromkeys(refs | live_rows.keys(), "") | named

    def _recent_as_of(self, c: Connection, view: TableClause, instance: str) -> int | None:
        """Return as of when the view is true, None: at any moment; raise ``OwnerSilent`` if that is too long ago."""
        as_of = live_moment.read(c, view, is_about(view, instance))
        if as_of is not None:
            with self._db.read() as own:
                live_moment.require_recent(as_of, self._db.now(own), self._max_age_seconds)
        return as_of

    def _meaning(self, c: Connection, view: TableClause, instance: str) -> _Meaning:
        return _Meaning(live_moment.definition(c, view), self._vaults(instance))

    def _loose_keys(
        self, c: Connection, view: TableClause, instance: str, meaning: _Meaning, heartbeat: Callable[[], None]
    ) -> LooseKeys:
        """Return the rows whose keys are not in canonical form, as a look of a moment ago found them."""
        is_own_row, known_as = is_about(view, instance), (instance, view.fullname)
        look = self._loose.get(known_as)
        if look is None or not look.counts(meaning):
            loose, seconds = loose_keys.read(self._db, c, view, is_own_row, meaning.vaults, heartbeat)
            look = self._loose[known_as] = _Look(loose, meaning, time.monotonic() + seconds)
        return look.found

    def _view_names(self, c: Connection, view: TableClause, instance: str, meaning: _Meaning) -> ViewNames:
        """Return how the view names objects; raise ``OwnerSilent`` if a row names no object."""
        is_own_row, known_as = is_about(view, instance), (instance, view.fullname)
        look = self._names.get(known_as)
        if look is None or not look.counts(meaning):  # without an index each look reads the whole view
            begun = time.monotonic()
            live_keys.require_placed(c, view, is_own_row, meaning.vaults)
            now = time.monotonic()
            until = now + min(RECHECK_SECONDS, loose_keys.TRUSTED_TIMES * (now - begun))
            look = self._names[known_as] = _Look(ViewNames(meaning.vaults), meaning, until)
        return look.found

    def live_as_of(self, instance: str) -> int | None:
        """Return as of when the view is true, if it is a copy."""
        with self._reading(instance) as (live, view):
            live.execute(select(view).limit(0))  # a right or column that is missing is an error before any listing
            as_of = live_moment.read(live, view, is_about(view, instance))
        with silent_on_error(SILENT), self._db.read() as c:
            live_moment.require_recent(as_of, self._db.now(c), self._max_age_seconds)
        return as_of

    def live_parts(self, instance: str, moment: str, connection: Connection, rows: int) -> LiveParts:
        """Return ranges of keys of the view."""
        with self._reading(instance, moment) as (live, view):
            as_of = live_moment.read(live, view, is_about(view, instance))
            return LiveParts(live_view.parts(live, view, instance, rows), as_of)

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the rows of a part of the view."""
        vaults = self._vaults(instance)
        with self._reading(instance, moment) as (live, view):
            exists = self._is_only_instance_of(view)
            for page in live_view.read(live, view, instance, part):
                yield [_resolved(entry, vaults, exists=exists) for entry in page]

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the rows of these records now."""
        vaults = self._vaults(instance)
        with self._reading(instance) as (live, view):
            exists = self._is_only_instance_of(view)
            entries = live_view.entries_of(live, view, instance, records)
        return [_resolved(entry, vaults, exists=exists) for entry in entries]

    @contextmanager
    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[tuple[Connection, Select[Any]]]:
        """Open the ids of the view, with the login that reads it."""
        name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise BadInput(_no_view(instance))
        with reading(self._db, instance, name, moment="") as c:
            view = live_view.load(c, name)
            is_of_kind = and_(is_about(view, instance), view.c.kind == kind)
            yield c, select(view.c.id.label("id")).where(is_of_kind, within(view.c.id, after, until)).distinct()

    @contextmanager
    def _reading(self, instance: str, moment: str | None = None) -> Iterator[tuple[Connection, TableClause]]:
        """Open a transaction that reads the view for a check: in a snapshot, or now."""
        with silent_on_error(SILENT):
            name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise NoLiveSide(f"{_no_view(instance)} (docs/integration.md)")
        limits = {"seconds": STATEMENT_SECONDS, "look_seconds": STATEMENT_SECONDS}
        with reading(self._db, instance, name, moment=moment, **limits) as live:
            view = live_view.load(live, name)
            if "instance" not in view.c and not self._is_only_instance_of(view):
                raise NoLiveSide(
                    f"{name} has no column instance, but several instances name it, so it is unknown to which one a "
                    "row belongs; add the column"
                )
            yield live, view

    def _vaults(self, instance: str) -> Mapping[str, VaultSpec]:
        return {spec.name: spec for spec in self._registry.vaults(instance)}

    def _is_only_instance_of(self, view: TableClause) -> bool:
        """Return whether one instance names the view, so that a row without an instance is about this one."""
        return sum(other.live_view == view.fullname for other in self._registry.instances()) == 1


def _no_view(instance: str) -> str:
    return (
        f"{instance} does not show which objects are live; create a view and name it: "
        f"sexton instance live-view {instance} VIEW"
    )


def _resolved(entry: LiveEntry, vaults: Mapping[str, VaultSpec], *, exists: bool) -> LiveEntry:
    """Return the entry under the vault and key that a listing shows.

    ``exists``: one instance names the view, so the object of a row without an instance must exist, too.
    """
    if exists and not entry.live:
        entry = entry._replace(live=True)
    entry = live_keys.resolved(entry, vaults)
    # No object of S3 has such a key: the row is a loss with a name that can be stored.
    is_in_s3 = entry.vault in vaults and vaults[entry.vault].kind == "s3"
    return entry._replace(key=short_key(entry.key)) if is_in_s3 else entry


def _expand_orphans(db: Database, instance: str, marks: Sequence[DueMark]) -> dict[Ref, Expansion]:
    """Return the orphans among marks with what their keys name as ancestors; without a key pattern, nothing.

    No record of the owner names an orphan, but a hold on an ancestor applies to it.
    """
    orphans = [mark for mark in marks if mark.etags and mark.vault is not None]
    if not orphans:
        return {}
    t = db.t.instance
    with db.read() as c:
        pattern = c.execute(select(t.c.key_pattern).where(t.c.id == instance)).scalar_one_or_none()
    if not pattern:
        return {}
    compiled = re.compile(pattern)
    expansions: dict[Ref, Expansion] = {}
    for mark in orphans:
        place = Place(vault=mark.vault or "", keys=mark.keys, etags=mark.etags)
        # Each group of the pattern is a kind, and its text an id.
        groups = [match.groupdict() for key in mark.keys or () if (match := compiled.fullmatch(key))]
        above = {Ref(ROWSET if kind == RECORD else kind, id_) for names in groups for kind, id_ in names.items() if id_}
        expansions[mark.ref] = Expansion(places=(place,), fence=False, above=tuple(sorted(above)))
    return expansions
