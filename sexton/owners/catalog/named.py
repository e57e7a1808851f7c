"""Find live files under a mark's own keys and prefix, for marks of kinds that the catalog does not define."""

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


def live(tx: CatalogTransaction, marks: Sequence[DueMark]) -> set[Ref]:
    """Return the marks that name a file of a visible rowset, exactly or by a prefix."""
    refs_by_prefix: Mapping[str, set[Ref]] = defaultdict(set)
    for mark in marks:
        if mark.prefix is not None:
            refs_by_prefix[mark.prefix].add(mark.ref)
    in_one_tablet = [prefix for prefix in refs_by_prefix if _tablet(prefix)]
    wider = [prefix for prefix in refs_by_prefix if not _tablet(prefix)]
    live_prefixes = [*_live_in_tablets(tx, in_one_tablet), *(p for p in wider if _has_visible_under(tx, p))]
    return _by_key(tx, marks).union(*(refs_by_prefix[prefix] for prefix in live_prefixes))


def _by_key(tx: CatalogTransaction, marks: Sequence[DueMark]) -> set[Ref]:
    """Return the marks with a key of a visible rowset."""
    refs_by_rowset: Mapping[str, set[Ref]] = defaultdict(set)
    for mark in marks:
        for key in mark.keys or ():
            if (file := parse(key)) is not None:
                refs_by_rowset[file.rowset].add(mark.ref)
    live_refs: set[Ref] = set()
    rowset_ids = sorted(refs_by_rowset)
    for start in range(0, len(rowset_ids), ROWS_AT_ONCE):
        page = rowset_ids[start : start + ROWS_AT_ONCE]
        for rowset_id in tx.ids(_visible(tx).where(tx.in_instance(tx.t.rowsets.c.id, page))):
            live_refs |= refs_by_rowset[rowset_id]
    return live_refs


def _tablet(prefix: str) -> str:
    """Return the tablet in whose folder a prefix lies; empty if it lies in none, or may mean several."""
    tablet, slash, _ = prefix.removeprefix(ROOT).partition("/")
    return tablet if prefix.startswith(ROOT) and slash else ""


def _live_in_tablets(tx: CatalogTransaction, prefixes: Sequence[str]) -> Iterator[str]:
    """Yield the prefixes, each in one tablet's folder, under which a visible rowset has files."""
    rowset = tx.t.rowsets
    prefixes_by_tablet: Mapping[str, list[str]] = defaultdict(list)
    for prefix in prefixes:
        prefixes_by_tablet[_tablet(prefix)].append(prefix)
    tablets = sorted(prefixes_by_tablet)
    for start in range(0, len(tablets), ROWS_AT_ONCE):
        is_in_page = tx.in_instance(rowset.c.tablet_id, tablets[start : start + ROWS_AT_ONCE])
        for rowset_id, tablet in tx.c.execute(_visible(tx).add_columns(rowset.c.tablet_id).where(is_in_page)):
            files = rowset_prefix(tablet, rowset_id)
            yield from (p for p in prefixes_by_tablet[tablet] if files.startswith(p) or p.startswith(files))


def _has_visible_under(tx: CatalogTransaction, prefix: str) -> bool:
    """Return whether a visible rowset has files under a prefix that may mean several tablets, or all of them."""
    if ROOT.startswith(prefix):
        return tx.c.execute(_visible(tx).limit(1)).first() is not None
    if not prefix.startswith(ROOT):
        return False
    is_under = tx.t.rowsets.c.tablet_id.startswith(prefix.removeprefix(ROOT), autoescape=True)
    return tx.c.execute(_visible(tx).where(is_under).limit(1)).first() is not None


def _visible(tx: CatalogTransaction) -> Any:
    """Select the ids of visible rowsets whose ancestors were not dropped."""
    rowset, tablet = tx.t.rowsets, tx.t.tablets
    is_own = and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance, parents.standing(tx))
    rowsets = select(rowset.c.id).join(tablet, is_own)
    return rowsets.where(rowset.c.instance == literal(tx.instance), rowset.c.state == RowsetState.VISIBLE)
