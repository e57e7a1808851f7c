"""Give ``key`` of the live view one meaning, for claims, checks and explanations alike.

A key is relative to the vault that its row names, or a URL below the root of that vault. A row with any other key could
mean any object: then the whole view counts as unreadable. Rows of vaults that the instance does not have are allowed.

Marks overlap with rows of the live view by id, by key, or by prefix in either direction. Live rows may also spell the
key of an object otherwise: percent-encoded, with doubled slashes, not composed.

A check compares keys in their canonical form, in which several spellings are one object. So a claim must not delete an
object that the view shows under another spelling. No index finds these rows, so the view is read through for them from
time to time. A row that was written since then is found under the spellings of common encoders, which are looked up one
by one: always for keys that they change, and for all keys where the view is too large to be read through.
"""

import re
import time
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import ColumnElement, FromClause, Select, Text, and_, case, false, func, or_, select, tuple_
from sqlalchemy import literal as sql_literal
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, reached_limit
from sexton.database.rows import READ_ROWS, as_rows, in_list
from sexton.marks.live import MOST_KEY, MOST_SHOWN, LiveEntry
from sexton.marks.model import DueMark, Ref
from sexton.marks.policy import covering_prefixes
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.live_view import LiveView, beginning, names_an_object
from sexton.storage.kinds import VAULT_KINDS, NotInAnyVault, resolve, url_roots
from sexton.storage.model import VaultSpec
from sexton.storage.policy import MAX_KEY_BYTES, canonical

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
    """Read the view through; return its rows that are not in canonical form. ``heartbeat`` is called between pages.

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
    key: ColumnElement[str] = columns.key
    # The ``//`` of a URL's scheme is no doubled slash.
    scheme = func.strpos(key, "://")
    path = case((scheme > 0, func.substr(key, scheme + 3)), else_=key)
    is_inside = and_(scheme > 0, func.strpos(key, "/") < scheme)
    is_not_ascii = func.octet_length(key) != func.length(key)
    is_url = and_(key.regexp_match(f"^{_URL.pattern}"), func.split_part(key, "://", 1).not_in(SCHEMES))
    may_be_loose = or_(func.strpos(key, "%") > 0, func.strpos(path, "//") > 0, is_inside, is_not_ascii, is_url)
    query = select(vault, beginning(key, MOST_KEY), kind, id_).where(names_an_object(view), may_be_loose)
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


LAST_CHARACTER = "\U0010ffff"
"""The last character in byte order: a prefix followed by it is above every key that begins with the prefix."""
_OTHERS = ("abfs", "abfss", "adl", "cos", "cosn", "dbfs", "gcs", "gs", "hdfs", "http", "https", "obs", "oss", "viewfs")
_OWN = {start.partition(":")[0] for kind in VAULT_KINDS.values() for start in kind.url_starts}
_COMMON = sorted({*_OWN, *_OTHERS, "wasb", "wasbs"})
SCHEMES = (*_COMMON, *map(str.upper, _COMMON))
"""Schemes of URLs that owners have in their metadata; Sexton resolves those of its vaults.

A look through the view finds others.
"""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""The beginning of a URL; Hadoop writes some with one slash."""
REMEDY = "write keys relative to the vault, or URLs below the vault's root (sexton vault list)"


class Range(NamedTuple):
    """Keys in byte order, from the first one up to, but not including, ``end``."""

    first: str
    end: str


def names_in_view(vaults: Mapping[str, VaultSpec], vault: str | None, name: str) -> list[str]:
    """Return the keys under which a live view may show an object or prefix of a vault. Pure.

    URLs are always among them: a look that found none says nothing about a row that was written since.
    """
    spec = vaults.get(vault or "")
    return [name, *(root + name for root in url_roots(spec))] if spec else [name]


def require_placed(view: LiveView, vaults: Mapping[str, VaultSpec]) -> None:
    """Refuse a view with a row that means no object. With an index on vault and key, it reads a few rows.

    ``vaults``: the instance's vaults by name.

    Raises:
        OwnerSilent: the key of a row is not in the vault that the row names.
    """
    table = view.table
    key: ColumnElement[str] = table.c.key.collate("C")
    # The vaults that its rows name, each by one look-up in an index.
    vaults_named = select(beginning(func.min(table.c.vault))).where(view.is_own_row, table.c.key.is_not(None))
    vault = view.c.execute(vaults_named).scalar()
    while vault is not None:
        if len(vault) >= MOST_SHOWN:
            raise OwnerSilent(f"{table.name} shows a vault whose name is too long: {vault[:100]}…; {REMEDY}")
        is_misplaced = or_(false(), *(and_(key >= r.first, key < r.end) for r in misplaced_keys(vault, vaults)))
        misplaced = select(beginning(table.c.key)).where(table.c.vault == vault, is_misplaced, view.is_own_row)
        if (shown := view.c.execute(misplaced.limit(1)).scalar()) is not None:
            raise OwnerSilent(f"{table.name} shows the key {shown!r} in vault {vault}; {REMEDY}")
        vault = view.c.execute(vaults_named.where(table.c.vault > vault)).scalar()


def resolved(entry: LiveEntry, vaults: Mapping[str, VaultSpec]) -> LiveEntry:
    """Return an entry of the view under the vault and key that a listing shows. Pure.

    Raises:
        OwnerSilent: the key is not in the vault that the row names; the check must not continue without the row.
    """
    is_url = _URL.match(entry.key) is not None
    if not is_url and entry.key[:1] not in ("", "/"):
        return entry
    vault, key = entry.vault, ""
    try:
        vault, key = resolve(entry.key, vaults) if is_url else (vault, key)
    except NotInAnyVault:
        if vault not in vaults:
            return entry  # it is in a vault of which no object is compared here
    if not key or vault != entry.vault or entry.key not in [root + key for root in url_roots(vaults[vault])]:
        raise OwnerSilent(f"{entry.record} has the key {entry.key[:MOST_SHOWN]!r} in vault {entry.vault}; {REMEDY}")
    return entry._replace(key=key)


def split(page: Any) -> tuple[Any, Any]:
    """Return the rows of a batch whose keys neither ``resolved`` nor ``short_key`` changes, and the others. Pure."""
    import pyarrow.compute as pc

    is_short = pc.less_equal(pc.binary_length(page["key"]), MAX_KEY_BYTES)
    is_plain = pc.and_not(is_short, pc.match_substring_regex(page["key"], f"^($|/|{_URL.pattern})"))
    return page.filter(is_plain), page.filter(pc.invert(is_plain))


def misplaced_keys(vault: str, vaults: Mapping[str, VaultSpec]) -> list[Range]:
    """Return the ranges of keys that a row of a vault may not have. Pure.

    That is an empty key, one with a leading ``/``, and a URL that is not below the vault's root. Where the instance
    does not have the vault: a URL below the root of one that it has.
    """
    others = sorted(root for spec in vaults.values() if spec.name != vault for root in url_roots(spec))
    if vault not in vaults:
        return [_below(root) for root in others]
    roots = sorted(url_roots(vaults[vault]))
    ranges = [Range("", "\x01"), _below("/")]
    for scheme in SCHEMES:  # the URLs with this scheme that are below none of the roots
        first, end = _below(f"{scheme}:/")
        for root in roots:
            if root.startswith(f"{scheme}://"):
                ranges.append(Range(first, root))
                first = _below(root).end
        ranges.append(Range(first, end))
    for root in roots:
        ranges += [Range(root, f"{root}\x01"), _below(f"{root}/")]
    return ranges + [_below(other) for other in others if other.startswith(tuple(roots))]


def _below(prefix: str) -> Range:
    return Range(prefix, prefix + LAST_CHARACTER)


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
                for view_name in names_in_view(self.vaults, mark.vault, spelling):
                    yield _name_row(mark, view_name)

    def _prefixes(self, mark: DueMark) -> list[str]:
        """Return the prefixes under which the view may show objects under the prefix of a mark."""
        spellings = self.loose.spellings(mark.prefix) if mark.prefix is not None else set()
        return [n for spelling in spellings for n in names_in_view(self.vaults, mark.vault, spelling)]

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
