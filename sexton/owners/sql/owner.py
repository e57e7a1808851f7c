"""The owner ``sql``: a database that calls Sexton's SQL functions, and inserts its marks in its own transactions.

It may show which objects are live in a view that its instance names, with columns ``kind, id, vault, key`` (and
``instance``, where several name it): ``key`` is an object, or a prefix ending with a separator under which *everything*
is live. A mark that touches anything live is kept: an owner's mistake must not cost it data. Without the view there is
no such check.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    TableClause,
    Text,
    and_,
    case,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy import literal as sql_literal
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sexton.database.engine import Database, first_line
from sexton.database.rows import as_rows
from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.marks.policy import covering_prefixes
from sexton.operators.registry.store import Registry
from sexton.owners.port import COUNT_SECONDS, FindRefs, OwnerSilent, Verify, nothing_to_verify
from sexton.owners.sql import live_keys, live_moment, live_view
from sexton.owners.sql.live_keys import LAST_CHARACTER, ViewNames
from sexton.owners.sql.live_sessions import reading
from sexton.owners.sql.live_view import is_about

NAMES_AT_ONCE = 5_000
"""Keys and prefixes in one statement."""
PREFIXES_AT_ONCE = 100
"""Prefixes in one statement. Without an index on (vault, key) each reads the whole view: 3.3 s per 100 prefixes over
300,000 live rows."""
STATEMENT_SECONDS = 20
"""Longest statement that reads the view, below the heartbeat timeout; a longer one raises ``OwnerSilent``."""
RECHECK_SECONDS = 60
"""How long it is trusted how the view names objects."""


class SqlOwner:
    """Implements ``owners.port.Owner`` for a database whose own transactions insert its marks."""

    def __init__(
        self,
        db: Database,
        registry: Registry,
        max_age_seconds: int = live_moment.MAX_AGE_SECONDS,
    ) -> None:
        """Store the ports.

        Args:
            db: the owner's database, which is Sexton's too.
            registry: names the view and the vaults of each instance.
            max_age_seconds: how old a copy of the live view may be.
        """
        self._db, self._registry, self._max_age_seconds = db, registry, max_age_seconds
        self._names: dict[tuple[str, str], tuple[ViewNames, float]] = {}

    def mark_due(
        self,
        instance: str,
        cutoffs: Mapping[str, int],
        heartbeat: Callable[[], None],
        verify: Verify = nothing_to_verify,
    ) -> None:
        """Do nothing: the owner inserts marks in its own transactions."""

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return nothing: ``due`` makes no marks."""
        return {}

    def abort_expired(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Do nothing: the owner's transactions time out by themselves, and their marks become due."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        """Return nothing: the marks name their own vault and files."""
        return {}

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Callable[[], None]
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Return FENCED for all: the owner's commit removes its own mark, or fails."""
        return dict.fromkeys(marks, (Fenced.FENCED, ""))

    def keeps_records(self, instance: str) -> bool:
        """Return False: the mark is the only record."""
        return False

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        """Do nothing: the mark is the only record, and the engine removes it."""

    def live_objects(self, instance: str) -> int | None:
        """Return how many rows the view shows; None without a view, or where a row is a prefix.

        Raises:
            OwnerSilent: the view cannot be read, or not in time.
        """
        try:
            if (name := live_view.named(self._db, self._registry.instance(instance))) is None:
                return None
            with reading(self._db) as c:
                self._set_timeout(c, COUNT_SECONDS)
                view = live_view.load(self._db, c, name)
                self._view_names(c, view, instance)
                return self._count(c, view, instance)
        except SQLAlchemyError as e:
            raise OwnerSilent(f"the rows of the live view cannot be counted: {first_line(e)}") from e

    def _count(self, c: Connection, view: TableClause, instance: str) -> int | None:
        """Return how many rows the view shows; None: one of them is a prefix."""
        if self._db.dialect == "postgresql":
            is_prefix = view.c.key.op("~")("[^A-Za-z0-9.-]$")
        else:
            is_prefix = view.c.key.op("GLOB")("*[^A-Za-z0-9.-]")
        prefixes = func.coalesce(func.sum(case((is_prefix, 1), else_=0)), 0)
        counts = select(func.count(), prefixes).select_from(view).where(is_about(view, instance))
        row_count, prefix_count = c.execute(counts).one()
        return None if prefix_count else int(row_count)

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return nothing: no mark is quarantined for a reason that only the owner can remove."""
        return ()

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> frozenset[Ref]:
        """Return the marks of which the view shows anything: by id, by key, or by prefix in either direction.

        Raises:
            OwnerSilent: the view cannot be read, or it is missing and marks were made by a check.
        """
        try:
            try:
                return self._live_refs(instance, marks, heartbeat)
            except DBAPIError as e:
                if not e.connection_invalidated:
                    raise
            return self._live_refs(instance, marks, heartbeat)  # a broken connection says nothing about the view
        except SQLAlchemyError as e:
            raise OwnerSilent(f"the live view cannot be read: {first_line(e)}") from e

    def _live_refs(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> frozenset[Ref]:
        if (name := live_view.named(self._db, self._registry.instance(instance))) is None:
            if any(mark.etags for mark in marks):
                raise OwnerSilent(
                    f"{instance} has no live view, but marks were made by a check that read one; create it again, and "
                    f"name it: sexton instance live-view {instance}"
                )
            return frozenset()
        with reading(self._db) as c:
            self._set_timeout(c, STATEMENT_SECONDS)
            view = live_view.load(self._db, c, name)
            names = self._view_names(c, view, instance)
            reader = _LiveMarks(self._db, c, view, is_about(view, instance), names, heartbeat)
            return frozenset(reader.by_id(marks) | reader.by_covering_key(marks) | reader.by_key_inside(marks))

    def _view_names(self, c: Connection, view: TableClause, instance: str) -> ViewNames:
        """Return how the view names objects; raise ``OwnerSilent`` if it is too old, or a row names no object."""
        is_own_row = is_about(view, instance)
        as_of = live_moment.read(self._db, c, view, is_own_row)
        if as_of is not None:
            with self._db.read() as own:
                live_moment.require_recent(as_of, self._db.now(own), self._max_age_seconds)
        known_as = (instance, view.fullname)
        names, until = self._names.get(known_as, (None, 0.0))
        if names is None or time.monotonic() > until:  # without an index each look reads the whole view
            vaults = {spec.name: spec for spec in self._registry.vaults(instance)}
            names = live_keys.read(self._db, c, view, is_own_row, vaults)
            self._names[known_as] = names, time.monotonic() + RECHECK_SECONDS
        return names

    def _set_timeout(self, c: Connection, seconds: int) -> None:
        if self._db.dialect == "postgresql":
            c.execute(text(f"SET LOCAL statement_timeout = {seconds * 1000}"))


@dataclass(frozen=True)
class _LiveMarks:
    """Finds the marks of which the view shows anything; each method checks one kind of overlap."""

    db: Database
    c: Connection
    view: TableClause
    is_own_row: ColumnElement[bool]
    names: ViewNames
    heartbeat: Callable[[], None]

    def by_id(self, marks: Sequence[DueMark]) -> set[Ref]:
        """Return the marks with the kind and id of a live row."""
        ids = as_rows(self.db, ({"kind": mark.kind, "id": mark.id} for mark in marks), kind=Text(), id=Text())
        is_same = and_(self.view.c.kind == ids.c.kind, self.view.c.id == ids.c.id, self.is_own_row)
        return self._refs(select(ids.c.kind, ids.c.id).where(select(1).where(is_same).exists()))

    def by_covering_key(self, marks: Sequence[DueMark]) -> set[Ref]:
        """Return the marks with a key or prefix that a live row names or covers."""
        rows = [
            _name_row(mark, view_name)
            for mark in marks
            for name in ((mark.prefix,) if mark.prefix is not None else (mark.keys or ()))
            for covering_name in covering_prefixes(name)
            for view_name in self.names.of(mark.vault, covering_name)
        ]
        refs: set[Ref] = set()
        for names in self._pages(rows, NAMES_AT_ONCE):
            is_same_key = tuple_(self.view.c.vault, self.view.c.key) == tuple_(names.c.vault, names.c.name)
            is_covered = select(1).where(and_(is_same_key, self.is_own_row)).exists()
            refs |= self._refs(select(names.c.kind, names.c.id).distinct().where(is_covered))
        return refs

    def by_key_inside(self, marks: Sequence[DueMark]) -> set[Ref]:
        """Return the marks with a prefix under which a live row has its key."""
        rows = [
            _name_row(mark, view_name)
            for mark in marks
            if mark.prefix is not None
            for view_name in self.names.of(mark.vault, mark.prefix)
        ]
        refs: set[Ref] = set()
        for prefixes in self._pages(rows, PREFIXES_AT_ONCE):
            key: ColumnElement[str] = self.view.c.key
            first: ColumnElement[str] = prefixes.c.name
            if self.db.dialect == "postgresql":  # other collations are not in byte order
                key, first = key.collate("C"), first.collate("C")
            is_inside = and_(key >= first, key < first + sql_literal(LAST_CHARACTER))
            is_live_inside = select(1).where(and_(self.view.c.vault == prefixes.c.vault, is_inside, self.is_own_row))
            refs |= self._refs(select(prefixes.c.kind, prefixes.c.id).where(is_live_inside.exists()))
        return refs

    def _pages(self, rows: Sequence[Mapping[str, Any]], size: int) -> Iterator[FromClause]:
        """Yield the rows as clauses of at most ``size`` rows, with a heartbeat before each."""
        for start in range(0, len(rows), size):
            self.heartbeat()
            yield as_rows(self.db, rows[start : start + size], kind=Text(), id=Text(), vault=Text(), name=Text())

    def _refs(self, query: Select[Any]) -> set[Ref]:
        return {Ref(row[0], row[1]) for row in self.c.execute(query)}


def _name_row(mark: DueMark, name: str) -> dict[str, Any]:
    """Return a row for a key or prefix of a mark, or a prefix that covers it."""
    return {"kind": mark.kind, "id": mark.id, "vault": mark.vault, "name": name}
