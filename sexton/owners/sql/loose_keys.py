"""Find live rows that spell the key of an object otherwise: percent-encoded, with doubled slashes, not composed.

A check compares keys in their canonical form, in which several spellings are one object. So a claim must not delete an
object that the view shows under another spelling. No index finds these rows, so the view is read through for them from
time to time. A row that was written since then is found under the spellings of common encoders, which are looked up one
by one: always for keys that they change, and for all keys where the view is too large to be read through.
"""

import re
import time
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, reached_limit
from sexton.database.rows import READ_ROWS
from sexton.marks.live import MOST_KEY, MOST_SHOWN, LiveEntry
from sexton.marks.model import DueMark
from sexton.marks.policy import covering_prefixes
from sexton.owners.sql.live_keys import resolved
from sexton.owners.sql.live_view import LiveView, beginning, names_an_object
from sexton.storage.model import VaultSpec
from sexton.storage.object_names import canonical

MOST_ID = 300
"""Characters of a vault, kind or id that are read; the row is only named with them."""
MOST_ROWS = 10_000
"""Rows that are kept in memory; a view with more writes its keys so as a rule."""
LOOK_SECONDS = 10
"""How long one look may take: the claim waits for it."""
TRUSTED_TIMES = 20
"""For how many times the duration of a look its result is trusted, so that looks take 5 % of the time."""
MOST_TRUSTED_SECONDS = 600
"""For how long at most: no retention is shorter, so a row that contradicts a mark from the beginning is seen."""
ENCODERS = ("/", "", "/-_.!~*'()", "/;,?:@&=+$-_.!~*'()#")
"""Characters that common encoders of paths and URLs leave alone."""
_PLAIN = re.compile(r"[A-Za-z0-9/._~-]*")
"""A key that they do not change, but for an encoder of single names, which changes slashes."""


class LooseKeys(NamedTuple):
    """The rows of an instance's view whose keys are not in canonical form."""

    rows: Mapping[str, Mapping[str, str]]
    """Vault → canonical key, in their order → the row, as people read it."""
    is_whole: bool
    """Whether these are all such rows."""

    def touched_by(self, mark: DueMark) -> str:
        """Return a row that is, covers or lies under a key or the prefix of a mark; empty: there is none."""
        rows = self.rows.get(mark.vault or "", {})
        if not rows:
            return ""
        for name in (mark.prefix,) if mark.prefix is not None else (mark.keys or ()):
            form = canonical(name)
            for covering in covering_prefixes(form):
                if covering in rows:
                    return rows[covering]
        if mark.prefix is None:
            return ""
        keys, form = list(rows), canonical(mark.prefix)
        first = bisect_left(keys, form)
        return rows[keys[first]] if first < len(keys) and keys[first].startswith(form) else ""

    def spellings(self, name: str) -> set[str]:
        """Return the names under which rows may show a key or prefix, but for rows that are known to be loose."""
        form = canonical(name)
        if self.is_whole and _PLAIN.fullmatch(form):
            return {name, form}
        once = {quote(form, safe=safe) for safe in ENCODERS}
        twice = {quote(encoded, safe="/") for encoded in once}
        return {name, form, unicodedata.normalize("NFD", form)} | once | twice


NONE = LooseKeys({}, is_whole=True)


def read(db: Database, view: LiveView, vaults: Mapping[str, VaultSpec], heartbeat: Callable[[], None]) -> LooseKeys:
    """Read the view through; return its rows that are not in canonical form.

    Args:
        db: the database.
        view: the live view.
        vaults: the instance's vaults by name.
        heartbeat: called between pages.

    Raises:
        OwnerSilent: the key of a row is not in the vault that the row names.
    """
    rows: dict[str, dict[str, str]] = {}
    begun, found, is_whole = time.monotonic(), 0, True
    for entry in _pages(db, view, heartbeat):
        if entry is None or found >= MOST_ROWS or time.monotonic() > begun + LOOK_SECONDS:
            rows, is_whole = {}, False
            break
        entry = resolved(entry, vaults)
        if entry.vault in vaults and entry.name != entry.key:
            found += 1
            rows.setdefault(entry.vault, {})[entry.name] = f"{entry.record} shows {entry.key[:MOST_SHOWN]}"
    return LooseKeys({vault: dict(sorted(of_vault.items())) for vault, of_vault in rows.items()}, is_whole)


def _pages(db: Database, view: LiveView, heartbeat: Callable[[], None]) -> Iterator[LiveEntry | None]:
    """Yield the rows that may not be in canonical form; None: the database did not find them in time."""
    c, columns = view.c, view.table.c
    vault, kind, id_ = (beginning(column, MOST_ID) for column in (columns.vault, columns.kind, columns.id))
    query = select(vault, beginning(columns.key, MOST_KEY), kind, id_)
    query = query.where(names_an_object(view), _may_be_loose(columns.key))
    savepoint = c.begin_nested()
    try:
        db.limit_statements(c, LOOK_SECONDS)
        for page in c.execute(query, execution_options={"yield_per": READ_ROWS}).partitions():
            heartbeat()
            for row in page:
                yield LiveEntry(row[0], row[1], prefix=False, live=True, record=f"{row[2]}/{row[3]}")
    except OperationalError as e:
        savepoint.rollback()
        if not reached_limit(e):
            raise
        yield None
    finally:
        if savepoint.is_active:
            savepoint.rollback()  # it read only; the time limit ends with it


def _may_be_loose(key: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a key may differ from its canonical form; the ``//`` of a URL's scheme is none."""
    scheme = func.strpos(key, "://")
    path = case((scheme > 0, func.substr(key, scheme + 3)), else_=key)
    is_inside = and_(scheme > 0, func.strpos(key, "/") < scheme)
    is_not_ascii = func.octet_length(key) != func.length(key)
    return or_(func.strpos(key, "%") > 0, func.strpos(path, "//") > 0, is_inside, is_not_ascii)
