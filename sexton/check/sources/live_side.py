"""Read the live side of a check in one snapshot: the owner's records, and the marks.

Where the database can share a snapshot (PostgreSQL), the parts are read in parallel, also on other machines; on SQLite
there is one part. URLs in an owner's view are resolved here, so that each object has one name.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, TableClause, select, text
from sqlalchemy.exc import SQLAlchemyError

from sexton.check.model import Moment
from sexton.check.port import Heartbeat, NoLiveSide
from sexton.check.sources import catalog, marks
from sexton.database.engine import Database, first_line
from sexton.marks.live import LiveEntry, Part, short_key
from sexton.operators.registry.store import Registry
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_keys, live_moment, live_view
from sexton.owners.sql.live_sessions import reading, reading_at
from sexton.storage.model import VaultSpec

PART_ROWS = 100_000
"""Rows of one part, about."""
REFRESH_LOOK_SECONDS = 1
"""From one look for a refresh of a copy to the next."""
STATEMENT_SECONDS = 3_600
"""How long a part may take to be read: of a view without an index it reads every row."""


class LiveSide:
    """Implements ``check.port.Live`` over one database."""

    def __init__(self, db: Database, registry: Registry, max_age_seconds: int = live_moment.MAX_AGE_SECONDS) -> None:
        self._db, self._registry, self._max_age_seconds = db, registry, max_age_seconds

    @contextmanager
    def snapshot(self, instance: str) -> Iterator[Moment]:
        is_catalog = self._is_catalog(instance)
        view_name = None if is_catalog else self._view_name(instance)
        with _silence_on_error(), self._db.snapshot() as c:
            name = self._db.share(c)
            self._set_timeout(c)
            at = self._db.now(c)
            parts = marks.parts(self._db, c, instance, PART_ROWS) if name else [Part()]
            if view_name is None:
                parts += catalog.parts(CatalogTransaction(self._db, c, instance), PART_ROWS) if name else []
            else:
                with reading_at(self._db, instance, name, c, seconds=STATEMENT_SECONDS) as live:
                    view = self._view(live, view_name)
                    at = min(at, self._as_of(live, view, instance) or at)
                    parts += live_view.parts(self._db, live, view, instance, PART_ROWS) if name else []
            yield Moment(name, at, tuple(parts))

    def as_of(self, instance: str) -> int | None:
        if self._is_catalog(instance):
            return None
        name = self._view_name(instance)
        with _silence_on_error():
            with reading(self._db, instance, STATEMENT_SECONDS, STATEMENT_SECONDS) as live:
                view = self._view(live, name)
                live.execute(select(view).limit(0))  # a right or column that is missing is an error before any listing
                as_of = self._as_of(live, view, instance)
            with self._db.read() as c:
                live_moment.require_recent(as_of, self._db.now(c), self._max_age_seconds)
        return as_of

    def wait_for_refresh(self, instance: str, listed_at: int, heartbeat: Heartbeat) -> None:
        while (as_of := self.as_of(instance)) is not None and as_of < listed_at:
            heartbeat()
            time.sleep(REFRESH_LOOK_SECONDS)

    def _as_of(self, c: Connection, view: TableClause, instance: str) -> int | None:
        return live_moment.read(self._db, c, view, live_view.is_about(view, instance))

    def _view_name(self, instance: str) -> str:
        with _silence_on_error():
            name = live_view.named(self._db, self._registry.instance(instance))
        if name is None:
            raise NoLiveSide(
                f"{instance} does not show which objects are live; create a view and name it: "
                f"sexton instance live-view {instance} VIEW (docs/integration.md)"
            )
        return name

    def _view(self, c: Connection, name: str) -> TableClause:
        view = live_view.load(self._db, c, name)
        if "instance" not in view.c and not self._is_only_instance_of(name):
            raise NoLiveSide(
                f"{name} has no column instance, but several instances name it, so it is unknown to which one a row "
                "belongs; add the column"
            )
        return view

    def read(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        is_catalog = self._is_catalog(instance)
        vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
        if part.source == "view":
            yield from self._read_view(instance, moment, part, vaults)
            return
        with _silence_on_error(), self._db.snapshot(moment) as c:
            self._set_timeout(c)
            if part.source in ("", *marks.SOURCES):
                yield from marks.read(self._db, c, instance, part, vaults)
            if part.source in ("", "records") and is_catalog:
                yield from catalog.read(CatalogTransaction(self._db, c, instance), part)
            if part.source == "" and not is_catalog:
                yield from self._read_view(instance, moment, part, vaults, c)

    def _read_view(
        self,
        instance: str,
        moment: str,
        part: Part,
        vaults: Mapping[str, VaultSpec],
        own: Connection | None = None,
    ) -> Iterator[Sequence[LiveEntry]]:
        """Yield the rows of the owner's view; ``own``: see ``reading_at``."""
        name = self._view_name(instance)
        exists = self._is_only_instance_of(name)
        with _silence_on_error(), reading_at(self._db, instance, moment, own, seconds=STATEMENT_SECONDS) as live:
            until = time.monotonic() + STATEMENT_SECONDS
            view = self._view(live, name)
            for page in live_view.read(self._db, live, view, instance, part):
                if time.monotonic() > until:
                    raise OwnerSilent(f"{name} did not show its rows within {STATEMENT_SECONDS:,} s; make it faster")
                yield [_resolved(entry, vaults, exists=exists) for entry in page]

    def entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
        with _silence_on_error():
            if self._is_catalog(instance):
                with self._db.read() as c:
                    return catalog.entries_of(CatalogTransaction(self._db, c, instance), records)
            name = self._view_name(instance)
            exists = self._is_only_instance_of(name)
            with reading(self._db, instance, STATEMENT_SECONDS, STATEMENT_SECONDS) as live:
                view = self._view(live, name)
                entries = live_view.entries_of(self._db, live, view, instance, records)
        return [_resolved(entry, vaults, exists=exists) for entry in entries]

    def pattern(self, instance: str) -> str:
        registered = self._registry.instance(instance)
        return catalog.PATTERN if registered.owner == "catalog" else registered.key_pattern

    def _is_only_instance_of(self, view: str) -> bool:
        """Return whether one instance names the view, so that a row without an instance is about this one."""
        return sum(other.live_view == view for other in self._registry.instances()) == 1

    def _is_catalog(self, instance: str) -> bool:
        return self._registry.owner(instance) == "catalog"

    def _set_timeout(self, c: Connection) -> None:
        if self._db.dialect == "postgresql":
            c.execute(text(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}"))


@contextmanager
def _silence_on_error() -> Iterator[None]:
    """Raise ``OwnerSilent`` for an error of the database."""
    try:
        yield
    except SQLAlchemyError as e:
        raise OwnerSilent(f"the owner's records cannot be read: {first_line(e)}") from e


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
