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
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import Connection, and_, case, func, select
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import first_line
from sexton.kernel.errors import BadInput
from sexton.marks.kept import NAMED_LIVE
from sexton.marks.live import LiveEntry, LivePage, Part, short_key
from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.marks.policy import as_named
from sexton.owners.plugin import STATEMENT_SECONDS, OwnerContext, silent_on_error
from sexton.owners.port import COUNT_SECONDS, LiveParts, NoLiveSide, Owner, OwnerSilent
from sexton.owners.sql import live_keys, live_moment, live_view
from sexton.owners.sql.live_keys import LiveMarks
from sexton.owners.sql.live_reading import OwnerSlow, reading
from sexton.owners.sql.live_view import LiveView
from sexton.storage.kinds import kind_of
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


class _Look(NamedTuple):
    """What a look at a whole view found, for as long as neither the view nor a vault of the instance is another one."""

    found: Any
    meaning: _Meaning
    until: float


class SqlOwner(Owner):
    """The owner of a database whose own transactions insert its marks.

    It shows the live view to checks in parts, which are read in parallel, also on other machines, each object under one
    name: URLs are resolved here.
    """

    def __init__(self, context: OwnerContext) -> None:
        self._db, self._registry = context.db, context.registry
        self._max_age_seconds = context.live_max_age_seconds
        self._looks: dict[tuple[str, str, str], _Look] = {}
        """By what was looked for, the instance and its view."""
        self._silences: dict[str, tuple[str, float]] = {}

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        """Return the files that the marks name; of orphans also what their keys name as ancestors.

        No mark needs a fence, nor does an orphan's: the owner's commit removes it, or fails because it is claimed.
        """
        expansions = {mark.ref: as_named(mark, fence=False) for mark in marks}
        orphans = [mark for mark in marks if mark.etags]
        if orphans and (pattern := self._registry.instance(instance).key_pattern):
            for mark in orphans:
                expansions[mark.ref] = expansions[mark.ref]._replace(above=_ancestors_in(mark.keys or (), pattern))
        return expansions

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
        with silent_on_error("the rows of the live view cannot be counted"):
            if (name := live_view.named(self._db, self._registry.instance(instance))) is None:
                return None
            with reading(self._db, instance, name, seconds=COUNT_SECONDS, look_seconds=COUNT_SECONDS) as view:
                self._recent_as_of(view)
                meaning = self._meaning(view)
                self._require_placed(view, meaning)
                shown = _count(view, meaning.vaults)
            # What the last complete check listed, no row of a view can raise.
            run = self._db.t.check_run
            complete = select(run.c.evidence).where(run.c.instance == instance, run.c.state == "WHOLE")
            with self._db.read() as own:
                evidence = own.execute(complete.order_by(run.c.id.desc()).limit(1)).scalar()
            if shown is None or not evidence:
                return shown
            listed = sum(int(listing.get("objects", 0) + listing.get("young", 0)) for listing in evidence["listings"])
            return min(shown, listed)

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
        with reading(self._db, instance, name) as view:
            as_of = self._recent_as_of(view)
            meaning = self._meaning(view)
            self._require_placed(view, meaning)
            read_through = partial(live_keys.read, self._db, view, meaning.vaults, heartbeat)
            loose = self._looked(view, meaning, "loose keys", live_keys.MOST_TRUSTED_SECONDS, read_through)
            reader = LiveMarks(view, meaning.vaults, loose, heartbeat)
            refs = reader.by_id(marks) | reader.by_covering_key(marks) | reader.by_key_inside(marks)
            live_rows = {mark.ref: row for mark in marks if (row := loose.touched_by(mark))}
            live_rows |= {mark.ref: OLDER for mark in marks if live_moment.precedes(as_of, mark.retention_starts_at)}
            first = [mark for mark in marks if mark.ref in refs or mark.ref in live_rows][:NAMED_LIVE]
            named = {mark.ref: reader.rows_of(mark) if mark.ref in refs else live_rows[mark.ref] for mark in first}
            return dict.fromkeys(refs | live_rows.keys(), "") | named

    def _recent_as_of(self, view: LiveView) -> int | None:
        """Return as of when the view is true, None: at any moment; raise ``OwnerSilent`` if that is too long ago."""
        as_of = live_moment.read(view)
        if as_of is not None:
            with silent_on_error(SILENT), self._db.read() as own:
                live_moment.require_recent(as_of, self._db.now(own), self._max_age_seconds)
        return as_of

    def _meaning(self, view: LiveView) -> _Meaning:
        return _Meaning(live_moment.definition(view), self._vaults(view.instance))

    def _require_placed(self, view: LiveView, meaning: _Meaning) -> None:
        """Raise ``OwnerSilent`` if a row names no object."""
        look = partial(live_keys.require_placed, view, meaning.vaults)  # without an index it reads the whole view
        self._looked(view, meaning, "placed", RECHECK_SECONDS, look)

    def _looked(
        self, view: LiveView, meaning: _Meaning, name: str, most_seconds: int, look: Callable[[], Found]
    ) -> Found:
        """Return what a look at the whole view finds, or found a moment ago: at most ``most_seconds``.

        ``meaning``: of the view, now. ``name``: what is looked for.
        """
        known_as, begun = (name, view.instance, view.table.fullname), time.monotonic()
        known = self._looks.get(known_as)
        if known is None or known.meaning != meaning or begun > known.until:
            found, ended = look(), time.monotonic()
            until = ended + min(most_seconds, live_keys.TRUSTED_TIMES * (ended - begun))
            known = self._looks[known_as] = _Look(found, meaning, until)
        return cast(Found, known.found)

    def live_as_of(self, instance: str) -> int | None:
        """Return as of when the view is true, if it is a copy."""
        with self._reading(instance) as view:
            view.c.execute(select(view.table).limit(0))  # a missing right or column is an error before any listing
            return self._recent_as_of(view)

    def live_parts(self, instance: str, moment: str, connection: Connection, rows: int) -> LiveParts:
        """Return ranges of keys of the view."""
        with self._reading(instance, moment) as view:
            as_of = live_moment.read(view)
            return LiveParts(live_view.parts(view, rows), as_of)

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[LivePage]:
        """Yield the rows of a part of the view, as columns where their keys are names of objects as they stand."""
        vaults = self._vaults(instance)
        with self._reading(instance, moment) as view:
            for page in live_view.read(view, part, exist=self._is_only_instance_of(view)):
                plain, others = live_keys.split(page)
                yield plain
                yield [_resolved(LiveEntry(**row), vaults) for row in others.to_pylist()]

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the rows of these records now."""
        vaults = self._vaults(instance)
        with self._reading(instance) as view:
            entries = live_view.entries_of(view, records, exist=self._is_only_instance_of(view))
        return [_resolved(entry, vaults) for entry in entries]

    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[str]:
        """Yield the ids of the view's rows of a kind; of kind ``key`` the keys of all, as they are written."""
        name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise BadInput(_no_view(instance))
        with reading(self._db, instance, name, moment="") as view:
            yield from live_view.ids(view, kind, after, until)

    @contextmanager
    def _reading(self, instance: str, moment: str | None = None) -> Iterator[LiveView]:
        """Open a transaction that reads the view for a check: in a snapshot, or now."""
        with silent_on_error(SILENT):
            name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise NoLiveSide(f"{_no_view(instance)} (docs/integration.md)")
        limits = {"seconds": STATEMENT_SECONDS, "look_seconds": STATEMENT_SECONDS}
        with reading(self._db, instance, name, moment=moment, **limits) as view:
            if "instance" not in view.table.c and not self._is_only_instance_of(view):
                raise NoLiveSide(
                    f"{name} has no column instance, but several instances name it, so it is unknown to which one a "
                    "row belongs; add the column"
                )
            yield view

    def _vaults(self, instance: str) -> Mapping[str, VaultSpec]:
        return {spec.name: spec for spec in self._registry.vaults(instance)}

    def _is_only_instance_of(self, view: LiveView) -> bool:
        """Return whether one instance names the view, so that a row without an instance is about this one."""
        return sum(other.live_view == view.table.fullname for other in self._registry.instances()) == 1


def _count(view: LiveView, vaults: Mapping[str, VaultSpec]) -> int | None:
    """Return how many rows the view shows; None: one of them is a prefix."""
    columns = view.table.c
    is_prefix = columns.key.op("~")(live_view.ENDS_WITH_SEPARATOR)
    prefixes = func.coalesce(func.sum(case((is_prefix, 1), else_=0)), 0)
    is_object = and_(view.is_own_row, columns.key.is_not(None), columns.vault.in_(vaults))
    counts = select(func.count(), prefixes).select_from(view.table).where(is_object)
    row_count, prefix_count = view.c.execute(counts).one()
    return None if prefix_count else int(row_count)


def _no_view(instance: str) -> str:
    return (
        f"{instance} does not show which objects are live; create a view and name it: "
        f"sexton instance live-view {instance} VIEW"
    )


def _resolved(entry: LiveEntry, vaults: Mapping[str, VaultSpec]) -> LiveEntry:
    """Return the entry under the vault and key that a listing shows."""
    entry = live_keys.resolved(entry, vaults)
    # No object of a service has a longer key: the row is a loss with a name that can be stored.
    is_limited = entry.vault in vaults and kind_of(vaults[entry.vault]).is_service
    return entry._replace(key=short_key(entry.key)) if is_limited else entry


def _ancestors_in(keys: Sequence[str], pattern: str) -> tuple[Ref, ...]:
    """Return what keys name as ancestors. No record of the owner names an orphan, but a hold on an ancestor applies.

    Each group of the pattern is a kind, and its text an id.
    """
    groups = [match.groupdict() for key in keys if (match := re.fullmatch(pattern, key))]
    above = {Ref(ROWSET if kind == RECORD else kind, id_) for names in groups for kind, id_ in names.items() if id_}
    return tuple(sorted(above))
