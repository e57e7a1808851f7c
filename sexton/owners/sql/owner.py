"""An owner in the same database: its marks are rows already, its commit removes its own mark, undrop takes the guard.

What is live it may show in a view ``sexton_live`` with columns ``kind, id, vault, key`` (and ``instance``, where one
database holds several): ``key`` is an object, or a prefix ending with a separator *all* of which is live. A mark that
touches anything live is kept: an owner's mistake must not cost it data. Without the view there is no such check.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    case,
    func,
    null,
    or_,
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
from sexton.owners.port import COUNT_SECONDS, OwnerSilent
from sexton.owners.sql.live_view import LIVE_VIEW, find, is_about

NAMES_AT_ONCE = 5_000
PREFIXES_AT_ONCE = 100
"""Without an index on (vault, key) each prefix reads the whole view: 3.3 s per 100 over 300,000 live rows."""
STATEMENT_SECONDS = 20
"""Longest statement about what is live, below the heartbeat timeout; beyond it the owner counts as silent."""
LAST_CHARACTER = "\U0010ffff"
"""After every other character in byte order, so a prefix plus this is above all that begins with the prefix."""


class SqlOwner:
    """Implements ``owner.port.Owner`` where marks are inserted by the owner's own transactions."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def due(self, instance: str, cutoffs: Mapping[str, int], heartbeat: Callable[[], None]) -> None:
        """Do nothing: the owner marks in its own transactions."""

    def grows(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return nothing: it makes no marks of its own."""
        return {}

    def time_out(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Do nothing: its transactions time out by themselves, and their marks fall due."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> Mapping[Ref, Expansion]:
        """Return nothing: its marks name their own vault and files."""
        return {}

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Callable[[], None]
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Return that all are: the owner's commit removes its own mark, or fails."""
        return dict.fromkeys(marks, (Fenced.FENCED, ""))

    def forget(self, instance: str, batch: int, refs: Sequence[Ref]) -> None:
        """Do nothing: the mark's removal is in the owner's database."""

    def live_objects(self, instance: str) -> int | None:
        """Return how many rows the view shows; None without a view, or where a row is a prefix.

        Raises:
            OwnerSilent: the view cannot be read, or not in time.
        """
        try:
            with self._db.read() as c:
                if self._db.dialect == "postgresql":
                    c.execute(text(f"SET LOCAL statement_timeout = {COUNT_SECONDS * 1000}"))
                view = find(self._db, c)
                if view is None:
                    return None
                its = is_about(view, instance)
                match = "[^A-Za-z0-9.-]$" if self._db.dialect == "postgresql" else "*[^A-Za-z0-9.-]"
                prefix = view.c.key.op("~" if self._db.dialect == "postgresql" else "GLOB")(match)
                prefixes = func.coalesce(func.sum(case((prefix, 1), else_=0)), 0)
                row = c.execute(select(func.count(), prefixes).select_from(view).where(its)).one()
                return None if row[1] else int(row[0])
        except SQLAlchemyError as e:
            raise OwnerSilent(f"the rows of {LIVE_VIEW} cannot be counted: {first_line(e)}") from e

    def mended(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return nothing: none of its marks is set aside for the owner."""
        return ()

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> frozenset[Ref]:
        """Return those of the marks of which the view shows anything: by id, by key, or by prefix either way."""
        try:
            try:
                return self._live(instance, marks, heartbeat)
            except DBAPIError as e:
                if not e.connection_invalidated:
                    raise
            return self._live(instance, marks, heartbeat)  # a connection that was cut says nothing of the view
        except SQLAlchemyError as e:
            raise OwnerSilent(f"the view {LIVE_VIEW} cannot be read: {first_line(e)}") from e

    def live_rows(self, names: Sequence[str]) -> list[tuple[str | None, str, str, str, str]]:
        """Return (instance, kind, id, vault, key) of live rows that are or cover one of the names, or have it as id."""
        wide = [w for name in names for w in covering_prefixes(name)]
        with self._db.read() as c:
            view = find(self._db, c)
            if view is None:
                return []
            shown = view.c.instance if "instance" in view.c else null()
            wanted = select(shown, view.c.kind, view.c.id, view.c.vault, view.c.key)
            found = c.execute(wanted.where(or_(view.c.key.in_(wide), view.c.id.in_(names))).limit(100))
            return [(row[0], row[1], row[2], row[3], row[4]) for row in found]

    def _live(self, instance: str, marks: Sequence[DueMark], heartbeat: Callable[[], None]) -> frozenset[Ref]:
        with self._db.read() as c:
            if self._db.dialect == "postgresql":
                c.execute(text(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}"))
            view = find(self._db, c)
            if view is None:
                if any(m.etags for m in marks):  # nothing but the view says that these are orphans
                    raise OwnerSilent(f"the view {LIVE_VIEW} is gone, by which a check found what it marked")
                return frozenset()
            its = is_about(view, instance)
            found: set[Ref] = set()
            ids = as_rows(self._db, ({"kind": m.kind, "id": m.id} for m in marks), kind=Text(), id=Text())
            same = and_(view.c.kind == ids.c.kind, view.c.id == ids.c.id, its)
            found.update(Ref(*r) for r in c.execute(select(ids.c.kind, ids.c.id).where(select(1).where(same).exists())))

            named = [
                {"kind": m.kind, "id": m.id, "vault": m.vault, "whole": name}
                for m in marks
                for whole in ((m.prefix,) if m.prefix is not None else (m.keys or ()))
                for name in covering_prefixes(whole)
            ]
            shape: dict[str, Any] = {"kind": Text(), "id": Text(), "vault": Text(), "whole": Text()}
            for start in range(0, len(named), NAMES_AT_ONCE):
                heartbeat()
                names = as_rows(self._db, named[start : start + NAMES_AT_ONCE], **shape)
                covers = and_(tuple_(view.c.vault, view.c.key) == tuple_(names.c.vault, names.c.whole), its)
                hit = select(names.c.kind, names.c.id).distinct().where(select(1).where(covers).exists())
                found.update(Ref(*r) for r in c.execute(hit))

            prefixes = [
                {"kind": m.kind, "id": m.id, "vault": m.vault, "whole": m.prefix} for m in marks if m.prefix is not None
            ]
            for start in range(0, len(prefixes), PREFIXES_AT_ONCE):
                heartbeat()
                low = as_rows(self._db, prefixes[start : start + PREFIXES_AT_ONCE], **shape)
                key: ColumnElement[str] = view.c.key
                first: ColumnElement[str] = low.c.whole
                if self._db.dialect == "postgresql":  # other collations are not in byte order
                    key, first = key.collate("C"), first.collate("C")
                inside = and_(key >= first, key < first + sql_literal(LAST_CHARACTER))
                within = and_(view.c.vault == low.c.vault, inside, its)
                hit = select(low.c.kind, low.c.id).where(select(1).where(within).exists())
                found.update(Ref(*r) for r in c.execute(hit))
            return frozenset(found)
