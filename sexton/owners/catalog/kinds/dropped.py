"""Marks of single dropped rowsets: deleted by exact file names, after the rowsets that were compacted into them."""

from collections.abc import Mapping, Sequence

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog import rowsets
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

WAITS = "its compaction inputs"


def _expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    expansions = rowsets.expand(tx, marks)
    covering_ids = rowsets.covering(tx, [mark.id for mark in marks])
    waiting = {ref: e._replace(waits=WAITS) for ref, e in expansions.items() if ref.id in covering_ids}
    return {**expansions, **waiting}


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    rowsets.forget(tx, ids, RowsetState.COMPACTED, RowsetState.DROPPED)


KIND = CatalogKind(
    name="dropped",
    expand=_expand,
    forget=_forget,
    live=rowsets.visible,
    resolvable=rowsets.resolvable,
)
