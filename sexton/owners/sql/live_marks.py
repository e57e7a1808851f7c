"""Find the marks that overlap with rows of the live view: by id, by key, or by prefix in either direction."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, Text, and_, func, or_, select, tuple_
from sqlalchemy import literal as sql_literal

from sexton.database.rows import as_rows, in_list
from sexton.marks.model import DueMark, Ref
from sexton.marks.policy import covering_prefixes
from sexton.owners.sql import live_keys
from sexton.owners.sql.live_keys import LAST_CHARACTER
from sexton.owners.sql.live_view import LiveView
from sexton.owners.sql.loose_keys import LooseKeys
from sexton.storage.model import VaultSpec
from sexton.storage.object_names import canonical

NAMES_AT_ONCE = 20_000
"""Keys and prefixes in one statement."""
PREFIXES_AT_ONCE = 100
"""Prefixes in one statement. Without an index on (vault, key) each reads the whole view: 3.3 s per 100 prefixes over
300,000 live rows."""
NAMED_ROWS = 3
"""Live rows that are named of one mark."""
NAMED_CHARACTERS = 1_024
"""Characters of their texts that are named."""


@dataclass(frozen=True)
class LiveMarks:
    """Finds the marks that overlap with rows of the view; each method checks one kind of overlap."""

    view: LiveView
    vaults: Mapping[str, VaultSpec]
    loose: LooseKeys
    heartbeat: Callable[[], None]

    def by_id(self, marks: Sequence[DueMark]) -> set[Ref]:
        """Return the marks with the kind and id of a live row."""
        ids = as_rows(({"kind": mark.kind, "id": mark.id} for mark in marks), kind=Text(), id=Text())
        is_same = and_(self.view.table.c.kind == ids.c.kind, self.view.table.c.id == ids.c.id, self.view.is_own_row)
        return self._refs(select(ids.c.kind, ids.c.id).where(select(1).where(is_same).exists()))

    def by_covering_key(self, marks: Sequence[DueMark]) -> set[Ref]:
        """Return the marks with a key or prefix that a live row names or covers."""
        rows = (row for mark in marks for row in self._covering_rows(mark))  # half as many as the keys have characters
        refs: set[Ref] = set()
        for names in self._pages(rows, NAMES_AT_ONCE):
            is_same_key = tuple_(self.view.table.c.vault, self.view.table.c.key) == tuple_(names.c.vault, names.c.name)
            is_covered = select(1).where(and_(is_same_key, self.view.is_own_row)).exists()
            refs |= self._refs(select(names.c.kind, names.c.id).distinct().where(is_covered))
        return refs

    def by_key_inside(self, marks: Sequence[DueMark]) -> set[Ref]:
        """Return the marks with a prefix under which a live row has its key."""
        rows = (_name_row(mark, view_name) for mark in marks for view_name in self._prefixes(mark))
        refs: set[Ref] = set()
        for prefixes in self._pages(rows, PREFIXES_AT_ONCE):
            # Other collations are not in byte order.
            columns, first = self.view.table.c, prefixes.c.name.collate("C")
            is_above = columns.key.collate("C") < first + sql_literal(LAST_CHARACTER)
            is_inside = and_(columns.vault == prefixes.c.vault, columns.key.collate("C") >= first, is_above)
            is_live_inside = select(1).where(and_(is_inside, self.view.is_own_row))
            refs |= self._refs(select(prefixes.c.kind, prefixes.c.id).where(is_live_inside.exists()))
        return refs

    def rows_of(self, mark: DueMark) -> str:
        """Return the first live rows that a mark touches, as people read them."""
        columns = [func.substr(self.view.table.c[name], 1, NAMED_CHARACTERS) for name in ("kind", "id", "key")]
        texts: set[str] = set()
        for touches in self._overlaps(mark):
            self.heartbeat()
            rows = select(*columns).where(touches, self.view.is_own_row).limit(NAMED_ROWS + 1)
            texts |= {f"{row[0]}/{row[1]} shows {row[2]}" for row in self.view.c.execute(rows)}
            if len(texts) > NAMED_ROWS:
                break
        more = " and more" if len(texts) > NAMED_ROWS else ""
        return ", ".join(sorted(texts)[:NAMED_ROWS]) + more

    def _overlaps(self, mark: DueMark) -> Iterator[ColumnElement[bool]]:
        """Yield conditions; a live row that the mark touches fulfils at least one."""
        columns = self.view.table.c
        yield and_(columns.kind == mark.kind, columns.id == mark.id)
        names = (row["name"] for row in self._covering_rows(mark))
        while page := list(islice(names, NAMES_AT_ONCE)):
            yield and_(columns.vault == mark.vault, in_list(columns.key, page))
        if mark.prefix is not None:
            key: ColumnElement[str] = columns.key.collate("C")
            inside = [and_(key >= n, key < n + LAST_CHARACTER) for n in self._prefixes(mark)]
            yield and_(columns.vault == mark.vault, or_(*inside))

    def _covering_rows(self, mark: DueMark) -> Iterator[dict[str, Any]]:
        """Yield a row for each name with which the view may show or cover a key or the prefix of a mark."""
        for name in (mark.prefix,) if mark.prefix is not None else (mark.keys or ()):
            covering = {*covering_prefixes(name), *covering_prefixes(canonical(name))}
            for spelling in {spelling for covered in covering for spelling in self.loose.spellings(covered)}:
                for view_name in live_keys.names_in_view(self.vaults, mark.vault, spelling):
                    yield _name_row(mark, view_name)

    def _prefixes(self, mark: DueMark) -> list[str]:
        """Return the prefixes under which the view may show objects under the prefix of a mark."""
        spellings = self.loose.spellings(mark.prefix) if mark.prefix is not None else set()
        return [n for spelling in spellings for n in live_keys.names_in_view(self.vaults, mark.vault, spelling)]

    def _pages(self, rows: Iterable[Mapping[str, Any]], size: int) -> Iterator[FromClause]:
        """Yield the rows as clauses of at most ``size`` rows, with a heartbeat before each."""
        remaining = iter(rows)
        while page := list(islice(remaining, size)):
            self.heartbeat()
            yield as_rows(page, kind=Text(), id=Text(), vault=Text(), name=Text())

    def _refs(self, query: Select[Any]) -> set[Ref]:
        return {Ref(row[0], row[1]) for row in self.view.c.execute(query)}


def _name_row(mark: DueMark, name: str) -> dict[str, Any]:
    """Return a row for a key or prefix of a mark, or a prefix that covers it."""
    return {"kind": mark.kind, "id": mark.id, "vault": mark.vault, "name": name}
