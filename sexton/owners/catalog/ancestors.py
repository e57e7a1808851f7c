"""Find the tablet, partition, index and table of marks, by the catalog's records.

A hold on one of them blocks deletion.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import Ref
from sexton.owners.catalog.layout import parse
from sexton.owners.catalog.parents import PARENTS
from sexton.owners.catalog.scope import CatalogTransaction

ROWSET_KINDS = ("compacted", "dropped", "prepared")


def find(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> Mapping[str, tuple[Ref, ...]]:
    """Return rowset or tablet id → its tablet and the tablet's ancestors, as far as they have records, marked or not.

    Marks of other kinds have no ancestors here: the result is empty.
    """
    tablets = _tablets_of(tx, kind, ids)
    parents = _parents_of(tx, set(tablets.values()))
    ancestor_refs: dict[str, tuple[Ref, ...]] = defaultdict(tuple)
    for mark_id, tablet_id in tablets.items():
        ancestor_refs[mark_id] = (Ref("tablet", tablet_id), *parents.get(tablet_id, ()))
    return ancestor_refs


def of_keys(tx: CatalogTransaction, keys: Sequence[str]) -> Mapping[str, tuple[Ref, ...]]:
    """Return key → the tablet and the tablet's ancestors, of those keys that name a file."""
    tablets = {key: file.tablet for key in keys if (file := parse(key)) is not None}
    refs_above = find(tx, "tablet", list(tablets.values()))
    return {key: refs_above[tablet] for key, tablet in tablets.items()}


def _tablets_of(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> Mapping[str, str]:
    """Return rowset or tablet id → tablet id; empty for marks of other kinds."""
    if kind == "tablet":
        return {tablet_id: tablet_id for tablet_id in ids}
    if kind not in ROWSET_KINDS:
        return {}
    rowset = tx.t.rowsets
    rows = tx.c.execute(select(rowset.c.id, rowset.c.tablet_id).where(tx.in_instance(rowset.c.id, ids)))
    return {row.id: row.tablet_id for row in rows}


def _parents_of(tx: CatalogTransaction, tablet_ids: Collection[str]) -> Mapping[str, tuple[Ref, ...]]:
    if not tablet_ids:
        return {}
    tablet = tx.t.tablets
    columns = [tablet.c[f"{kind}_id"] for kind in PARENTS]
    rows = tx.c.execute(select(tablet.c.id, *columns).where(tx.in_instance(tablet.c.id, tablet_ids)))
    return {row[0]: tuple(Ref(kind, id_) for kind, id_ in zip(PARENTS, row[1:], strict=True)) for row in rows}
