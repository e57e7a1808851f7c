"""The live side of a check, read at one moment: the owner's records, and the marks.

Where the database can share a moment (PostgreSQL) its parts are read side by side, also on other machines; on SQLite
all of it is one part. What an owner's view writes as a URL is resolved here, so that an object has one name.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, TableClause, text
from sqlalchemy.exc import SQLAlchemyError

from sexton.check.model import Moment
from sexton.check.port import NoLiveSide
from sexton.check.sources import catalog, marks
from sexton.database.engine import Database, first_line
from sexton.marks.live import LiveEntry, Part
from sexton.operators.registry.store import Registry
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_view
from sexton.storage.identity import Nowhere, resolve
from sexton.storage.model import VaultSpec

PART_ROWS = 100_000
STATEMENT_SECONDS = 3_600
"""Longest statement that reads a part (PostgreSQL): of a view without an index it reads all of it."""


class LiveSide:
    """Implements ``check.port.Live`` over one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._registry = Registry(db)

    @contextmanager
    def moment(self, instance: str) -> Iterator[Moment]:
        catalogued = self._catalogued(instance)
        with self._spoken(), self._db.snapshot() as c:
            name = self._db.share(c)
            self._patience(c)
            at = self._db.now(c)
            view = None if catalogued else self._view(c)
            parts = [Part()]
            if name:
                parts = marks.parts(self._db, c, instance, PART_ROWS)
                if view is not None:
                    parts += live_view.parts(self._db, c, view, instance, PART_ROWS)
                else:
                    parts += catalog.parts(CatalogTransaction(self._db, c, instance), PART_ROWS)
            yield Moment(name, at, tuple(parts))

    def check(self, instance: str) -> None:
        if not self._catalogued(instance):
            with self._spoken(), self._db.read() as c:
                self._view(c)

    def _view(self, c: Connection) -> TableClause:
        view = live_view.find(self._db, c)
        if view is not None and "instance" not in view.c and not self._alone():
            raise NoLiveSide(
                f"{live_view.LIVE_VIEW} has no column instance, and there are several: nobody can say whose a row is"
            )
        if view is None:
            raise NoLiveSide(
                f"the owner shows nothing live: give it a view {live_view.LIVE_VIEW} (docs/integration.md)"
            )
        return view

    def read(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        catalogued = self._catalogued(instance)
        vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
        with self._spoken(), self._db.snapshot(moment) as c:
            self._patience(c)
            yield from self._sources(c, instance, part, catalogued, vaults)

    def named(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
        catalogued = self._catalogued(instance)
        with self._spoken(), self._db.read() as c:
            if catalogued:
                return catalog.named(CatalogTransaction(self._db, c, instance), records)
            found = live_view.named(self._db, c, self._view(c), instance, records)
            return [_one_name(known, vaults, alone=self._alone()) for known in found]

    def pattern(self, instance: str) -> str:
        its = self._registry.instance(instance)
        return catalog.PATTERN if its.owner == "catalog" else its.key_pattern

    def _sources(
        self, c: Connection, instance: str, part: Part, catalogued: bool, vaults: Mapping[str, VaultSpec]
    ) -> Iterator[Sequence[LiveEntry]]:
        if part.source in ("", "marks"):
            yield from marks.read(self._db, c, instance, part, vaults)
        if part.source in ("", "records") and catalogued:
            yield from catalog.read(CatalogTransaction(self._db, c, instance), part)
        if part.source in ("", "view") and not catalogued:
            alone = self._alone()
            for page in live_view.read(self._db, c, self._view(c), instance, part):
                yield [_one_name(known, vaults, alone=alone) for known in page]

    def _alone(self) -> bool:
        return len(self._registry.instances()) == 1

    def _catalogued(self, instance: str) -> bool:
        return self._registry.owner(instance) == "catalog"

    def _patience(self, c: Connection) -> None:
        if self._db.dialect == "postgresql":
            c.execute(text(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}"))

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as e:
            raise OwnerSilent(f"the owner's records cannot be read: {first_line(e)}") from e


def _one_name(known: LiveEntry, vaults: Mapping[str, VaultSpec], *, alone: bool) -> LiveEntry:
    """Return it under the name that a listing has for it; ``alone``: a row for every instance is for this one."""
    if alone:
        known = known._replace(live=True)
    if "://" in known.key:
        try:
            vault, key = resolve(known.key, vaults)
        except Nowhere as e:
            if known.vault not in vaults:
                return known  # another instance's: nothing here is compared with it
            # As good as unread: it may mean any object of ours.
            raise OwnerSilent(f"{known.record}: {e}") from e
        return known._replace(vault=vault, key=key)
    return known._replace(key=known.key.lstrip("/")) if known.key.startswith("/") and known.key != "/" else known
