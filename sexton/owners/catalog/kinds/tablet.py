"""Marks of tablets of dropped parents: deleted by prefix in every vault, with the marks of their rowsets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.kernel.errors import BadInput
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.layout import tablet_prefix
from sexton.owners.catalog.scope import CatalogTransaction


def _expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return each tablet's prefix in every vault that a rowset of it (in any state) or the mark of a rowset names."""
    rowset, mark, ids = tx.t.rowsets, tx.db.t.mark, [due_mark.id for due_mark in marks]
    of_rowsets = select(rowset.c.tablet_id, rowset.c.vault).where(tx.in_instance(rowset.c.tablet_id, ids))
    is_child = [tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == "tablet", mark.c.vault.is_not(None)]
    of_marks = select(mark.c.parent_id, mark.c.vault).where(*is_child)
    vaults: dict[str, list[str]] = defaultdict(list)
    for tablet, vault in tx.c.execute(of_rowsets.union(of_marks)):
        vaults[tablet].append(vault)
    return {due_mark.ref: _expansion(due_mark.id, sorted(vaults[due_mark.id])) for due_mark in marks}


def _expansion(tablet: str, vaults: Sequence[str]) -> Expansion:
    try:
        prefix = tablet_prefix(tablet)
    except BadInput as e:
        return Expansion(problem=(Reason.UNEXPANDED, str(e)))
    return Expansion(places=tuple(Place(vault=v, prefix=prefix) for v in vaults), absorbs=True)


def _live(tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    tablet = tx.t.tablets
    return tx.ids(select(tablet.c.id).where(tx.in_instance(tablet.c.id, ids), parents.standing(tx)))


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    tablet = tx.t.tablets
    live_ids = set(_live(tx, ids))
    dropped_ids = [tablet_id for tablet_id in ids if tablet_id not in live_ids]
    tx.lock_rowsets(dropped_ids)
    for column in (tx.t.rowsets.c.tablet_id, tx.t.jobs.c.tablet_id, tx.t.stats.c.tablet_id, tablet.c.id):
        tx.remove(column, dropped_ids)


KIND = CatalogKind(name="tablet", expand=_expand, forget=_forget, live=_live)
