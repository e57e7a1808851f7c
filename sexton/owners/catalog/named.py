"""What of a mark's own keys and prefixes is live: a mark of no kind of the catalog's names files, never records."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, literal, select

from sexton.marks.model import DueMark, Ref
from sexton.owners.catalog import parents
from sexton.owners.catalog.layout import ROOT, parse, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

ROWS_AT_ONCE = 5_000


def live(s: CatalogTransaction, marks: Sequence[DueMark]) -> set[Ref]:
    """Return the marks that name a file of a visible rowset, exactly or by a prefix."""
    prefixes: Mapping[str, set[Ref]] = defaultdict(set)
    for mark in marks:
        if mark.prefix is not None:
            prefixes[mark.prefix].add(mark.ref)
    found = _by_key(s, marks)
    for prefix in _in_tablets(s, [p for p in prefixes if _tablet(p)]):
        found |= prefixes[prefix]
    return found.union(*(refs for p, refs in prefixes.items() if not _tablet(p) and _any_under(s, p)))


def _by_key(s: CatalogTransaction, marks: Sequence[DueMark]) -> set[Ref]:
    named: Mapping[str, set[Ref]] = defaultdict(set)
    for mark in marks:
        for key in mark.keys or ():
            if (file := parse(key)) is not None:
                named[file.rowset].add(mark.ref)
    found: set[Ref] = set()
    ids = sorted(named)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        for id_ in s.ids(_visible(s).where(s.mine(s.t.rowsets.c.id, ids[start : start + ROWS_AT_ONCE]))):
            found |= named[id_]
    return found


def _tablet(prefix: str) -> str:
    """Return the tablet in whose folder a prefix lies; empty where it is none, or may be several."""
    tablet, slash, _ = prefix.removeprefix(ROOT).partition("/")
    return tablet if prefix.startswith(ROOT) and slash else ""


def _in_tablets(s: CatalogTransaction, prefixes: Sequence[str]) -> Iterator[str]:
    """Yield the prefixes, each in one tablet's folder, under which a visible rowset has files."""
    rowset = s.t.rowsets
    of: Mapping[str, list[str]] = defaultdict(list)
    for prefix in prefixes:
        of[_tablet(prefix)].append(prefix)
    tablets = sorted(of)
    for start in range(0, len(tablets), ROWS_AT_ONCE):
        some = s.mine(rowset.c.tablet_id, tablets[start : start + ROWS_AT_ONCE])
        for id_, tablet in s.c.execute(_visible(s).add_columns(rowset.c.tablet_id).where(some)):
            whole = rowset_prefix(tablet, id_)
            yield from (p for p in of[tablet] if whole.startswith(p) or p.startswith(whole))


def _any_under(s: CatalogTransaction, prefix: str) -> bool:
    """Return whether any visible rowset has files under a prefix that may mean several tablets, or all of them."""
    if ROOT.startswith(prefix):
        return s.c.execute(_visible(s).limit(1)).first() is not None
    if not prefix.startswith(ROOT):
        return False
    tablet = prefix.removeprefix(ROOT)
    its = s.t.rowsets.c.tablet_id.startswith(tablet, autoescape=True)
    return s.c.execute(_visible(s).where(its).limit(1)).first() is not None


def _visible(s: CatalogTransaction) -> Any:
    rowset, tablet = s.t.rowsets, s.t.tablets
    of = and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance, parents.standing(s))
    chosen = select(rowset.c.id).join(tablet, of)
    return chosen.where(rowset.c.instance == literal(s.instance), rowset.c.state == RowsetState.VISIBLE)
