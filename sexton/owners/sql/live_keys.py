"""Give ``key`` of the live view one meaning, for claims, checks and explanations alike.

A key is relative to the vault that its row names, or a URL below the root of that vault. A row with any other key could
mean any object: then the whole view counts as unreadable. Rows of vaults that the instance does not have are allowed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, false, func, or_, select

from sexton.marks.live import MOST_SHOWN, LiveEntry
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.live_view import LiveView, beginning
from sexton.storage.model import VaultSpec
from sexton.storage.object_names import S3_SCHEMES, NotInAnyVault, resolve, url_roots

LAST_CHARACTER = "\U0010ffff"
"""The last character in byte order: a prefix followed by it is above every key that begins with the prefix."""
SCHEMES = (*S3_SCHEMES, "file", "abfs", "abfss", "cos", "gs", "hdfs", "http", "https", "obs", "oss", "wasb", "wasbs")
"""Schemes of URLs that owners have in their metadata; Sexton resolves those of its vaults."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
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
    for vault in _named_vaults(view):
        is_misplaced = or_(false(), *(and_(key >= r.first, key < r.end) for r in misplaced_keys(vault, vaults)))
        misplaced = select(beginning(table.c.key)).where(table.c.vault == vault, is_misplaced, view.is_own_row)
        if (shown := view.c.execute(misplaced.limit(1)).scalar()) is not None:
            raise OwnerSilent(f"{table.name} shows the key {shown!r} in vault {vault}; {REMEDY}")


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
    for scheme in SCHEMES:
        ranges += _between(_below(f"{scheme}://"), [root for root in roots if root.startswith(f"{scheme}://")])
    for root in roots:
        ranges += [Range(root, f"{root}\x01"), _below(f"{root}/")]
    return ranges + [_below(other) for other in others if other.startswith(tuple(roots))]


def _between(whole: Range, roots: Sequence[str]) -> Iterator[Range]:
    """Yield the parts of a range that are below none of the roots, which are in byte order."""
    first = whole.first
    for root in roots:
        yield Range(first, root)
        first = _below(root).end
    yield Range(first, whole.end)


def _below(prefix: str) -> Range:
    return Range(prefix, prefix + LAST_CHARACTER)


def _named_vaults(view: LiveView) -> Iterator[str]:
    """Yield the names of the vaults in the rows that name the instance, each by one look-up in an index."""
    columns = view.table.c
    names = select(beginning(func.min(columns.vault))).where(view.is_own_row, columns.key.is_not(None))
    vault = view.c.execute(names).scalar()
    while vault is not None:
        if len(vault) >= MOST_SHOWN:
            raise OwnerSilent(f"{view.table.name} shows a vault whose name is too long: {vault[:100]}…; {REMEDY}")
        yield vault
        vault = view.c.execute(names.where(columns.vault > vault)).scalar()
