"""Show an owner's live view to checks and to peers: in parts, in one snapshot, with each object under one name.

The parts are read in parallel, also on other machines. URLs are resolved here.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import Connection, Select, TableClause, and_, select

from sexton.database.engine import Database
from sexton.database.ranges import within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part, short_key
from sexton.operators.registry.store import Registry
from sexton.owners.port import LiveParts, NoLiveSide, Owner, OwnerSilent
from sexton.owners.reading import STATEMENT_SECONDS, silent_on_error
from sexton.owners.sql import live_keys, live_moment, live_view
from sexton.owners.sql.live_sessions import reading, reading_at
from sexton.storage.model import VaultSpec

SILENT = "the owner's records cannot be read"


class ViewReader(Owner):
    """The part of the owner ``sql`` that reads whole views."""

    def __init__(self, db: Database, registry: Registry, max_age_seconds: int = live_moment.MAX_AGE_SECONDS) -> None:
        """Store the ports.

        Args:
            db: the owner's database, which is Sexton's too.
            registry: names the view and the vaults of each instance.
            max_age_seconds: how old a copy of the live view may be.
        """
        self._db, self._registry, self._max_age_seconds = db, registry, max_age_seconds

    def live_as_of(self, instance: str) -> int | None:
        """Return as of when the view is true, if it is a copy."""
        name = self._view_name(instance)
        with silent_on_error(SILENT):
            with reading(self._db, instance, STATEMENT_SECONDS, STATEMENT_SECONDS) as live:
                view = self._view(live, name)
                live.execute(select(view).limit(0))  # a right or column that is missing is an error before any listing
                as_of = self._as_of(live, view, instance)
            with self._db.read() as c:
                live_moment.require_recent(as_of, self._db.now(c), self._max_age_seconds)
        return as_of

    def live_parts(self, instance: str, moment: str, connection: Connection, rows: int) -> LiveParts:
        """Return ranges of keys of the view."""
        name = self._view_name(instance)
        with silent_on_error(SILENT), self._reading_at(instance, moment) as live:
            view = self._view(live, name)
            as_of = self._as_of(live, view, instance)
            return LiveParts(live_view.parts(live, view, instance, rows), as_of)

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the rows of a part of the view."""
        vaults, name = self._vaults(instance), self._view_name(instance)
        exists = self._is_only_instance_of(name)
        with silent_on_error(SILENT), self._reading_at(instance, moment) as live:
            until = time.monotonic() + STATEMENT_SECONDS
            view = self._view(live, name)
            for page in live_view.read(live, view, instance, part):
                if time.monotonic() > until:
                    raise OwnerSilent(f"{name} did not show its rows within {STATEMENT_SECONDS:,} s; make it faster")
                yield [_resolved(entry, vaults, exists=exists) for entry in page]

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the rows of these records now."""
        vaults, name = self._vaults(instance), self._view_name(instance)
        exists = self._is_only_instance_of(name)
        with silent_on_error(SILENT), reading(self._db, instance, STATEMENT_SECONDS, STATEMENT_SECONDS) as live:
            entries = live_view.entries_of(live, self._view(live, name), instance, records)
        return [_resolved(entry, vaults, exists=exists) for entry in entries]

    @contextmanager
    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[tuple[Connection, Select[Any]]]:
        """Open the ids of the view, with the login that reads it."""
        name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise BadInput(_no_view(instance))
        with reading_at(self._db, instance, "") as c:
            view = live_view.load(self._db, c, name)
            is_of_kind = and_(live_view.is_about(view, instance), view.c.kind == kind)
            yield c, select(view.c.id.label("id")).where(is_of_kind, within(view.c.id, after, until)).distinct()

    def _reading_at(self, instance: str, moment: str) -> AbstractContextManager[Connection]:
        return reading_at(self._db, instance, moment, seconds=STATEMENT_SECONDS)

    def _as_of(self, c: Connection, view: TableClause, instance: str) -> int | None:
        return live_moment.read(self._db, c, view, live_view.is_about(view, instance))

    def _view_name(self, instance: str) -> str:
        with silent_on_error(SILENT):
            name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise NoLiveSide(f"{_no_view(instance)} (docs/integration.md)")
        return name

    def _view(self, c: Connection, name: str) -> TableClause:
        view = live_view.load(self._db, c, name)
        if "instance" not in view.c and not self._is_only_instance_of(name):
            raise NoLiveSide(
                f"{name} has no column instance, but several instances name it, so it is unknown to which one a row "
                "belongs; add the column"
            )
        return view

    def _vaults(self, instance: str) -> Mapping[str, VaultSpec]:
        return {spec.name: spec for spec in self._registry.vaults(instance)}

    def _is_only_instance_of(self, view: str) -> bool:
        """Return whether one instance names the view, so that a row without an instance is about this one."""
        return sum(other.live_view == view for other in self._registry.instances()) == 1


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
    return entry._replace(key=short_key(entry.key)) if _is_in_s3(entry, vaults) else entry


def _is_in_s3(entry: LiveEntry, vaults: Mapping[str, VaultSpec]) -> bool:
    return entry.vault in vaults and vaults[entry.vault].kind == "s3"
