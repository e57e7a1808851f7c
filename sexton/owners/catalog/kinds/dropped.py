"""A rowset that was dropped by itself: its files by their names, when what was compacted into it is gone."""

from collections.abc import Mapping, Sequence

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog import rowsets
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

WAITS = "its compaction inputs"


def _expand(s: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    told, first = rowsets.expand(s, marks), rowsets.covering(s, [m.id for m in marks])
    return {ref: e.model_copy(update={"waits": WAITS}) if ref.id in first else e for ref, e in told.items()}


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    rowsets.forget(s, ids, RowsetState.COMPACTED, RowsetState.DROPPED)


KIND = CatalogKind(
    name="dropped",
    retention="dropped_partition_retention_seconds",
    expand=_expand,
    forget=_forget,
    live=rowsets.visible,
    mended=rowsets.mended,
)
