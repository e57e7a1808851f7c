"""The live side of a check, read at one moment: the owner's records, and the marks.

Where the database can share a moment (PostgreSQL) its parts are read side by side, also on other machines; on SQLite
all of it is one part. What an owner's view writes as a URL is resolved here, so that an object has one name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, TableClause, text
from sqlalchemy.exc import SQLAlchemyError

from sexton.catalog import known as catalog
from sexton.catalog.scope import Scope
from sexton.check.model import Known, Moment, Part
from sexton.check.port import NoLiveSide
from sexton.db.engine import Database, first_line
from sexton.marks import known as marks
from sexton.marks.policy import covering_prefixes
from sexton.owner import live_view
from sexton.owner.port import OwnerSilent
from sexton.registry.store import Registry
from sexton.storage.identity import S3_SCHEMES, Nowhere, resolve
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
                    parts += catalog.parts(Scope(self._db, c, instance), PART_ROWS)
            yield Moment(name, at, tuple(parts))

    def check(self, instance: str) -> None:
        if not self._catalogued(instance):
            with self._spoken(), self._db.read() as c:
                self._view(c)

    def _view(self, c: Connection) -> TableClause:
        view = live_view.find(self._db, c)
        if view is None:
            raise NoLiveSide(
                f"the owner shows nothing live: give it a view {live_view.LIVE_VIEW} (docs/integration.md)"
            )
        return view

    def read(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[Known]]:
        catalogued = self._catalogued(instance)
        vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
        with self._spoken(), self._db.snapshot(moment) as c:
            self._patience(c)
            for page in self._sources(c, instance, part, catalogued):
                yield [_one_name(known, vaults) for known in page]

    def named(self, instance: str, keys: Sequence[str]) -> Sequence[Known]:
        vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
        catalogued = self._catalogued(instance)
        with self._spoken(), self._db.read() as c:
            if catalogued:
                return catalog.named(Scope(self._db, c, instance), keys)
            view = self._view(c)
            names = sorted({p for key in keys for p in covering_prefixes(key)} | set(keys))
            wanted = [*names, *_written(names, vaults.values())]
            return [_one_name(known, vaults) for known in live_view.named(self._db, c, view, instance, wanted)]

    def pattern(self, instance: str) -> str:
        its = self._registry.instance(instance)
        return catalog.PATTERN if its.owner == "catalog" else its.key_pattern

    def _sources(self, c: Connection, instance: str, part: Part, catalogued: bool) -> Iterator[Sequence[Known]]:
        if part.source in ("", "marks"):
            yield from marks.read(self._db, c, instance, part)
        if part.source in ("", "records") and catalogued:
            yield from catalog.read(Scope(self._db, c, instance), part)
        if part.source in ("", "view") and not catalogued:
            yield from live_view.read(self._db, c, self._view(c), instance, part)

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


def _one_name(known: Known, vaults: Mapping[str, VaultSpec]) -> Known:
    """Return it under the name that a listing has for it."""
    if "://" in known.key:
        try:
            vault, key = resolve(known.key, vaults)
        except Nowhere as e:
            if known.vault not in vaults:
                return known  # another instance's: nothing here is compared with it
            # As good as unread: it may mean any object of ours.
            raise OwnerSilent(f"{known.record}: {e}") from e
        return known._replace(vault=vault, key=key)
    return known._replace(key=known.key.lstrip("/")) if known.key.startswith("/") else known


def _written(keys: Sequence[str], vaults: Iterable[VaultSpec]) -> list[str]:
    """Return how a view may have written these keys."""
    found = [f"/{key}" for key in keys]
    for spec in vaults:
        if spec.kind == "s3":
            found += [f"{scheme}://{spec.location}/{spec.prefix}{key}" for scheme in S3_SCHEMES for key in keys]
        else:
            found += [f"file://{spec.location.rstrip('/')}/{spec.prefix}{key}" for key in keys]
    return found
