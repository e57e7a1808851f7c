"""A rowset that a compaction replaced: its files by their names, as long as visible rowsets hold its versions."""

from collections.abc import Sequence

from sexton.owners.catalog import rowsets
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    rowsets.forget(s, ids, RowsetState.COMPACTED, RowsetState.DROPPED)


def _live(s: CatalogTransaction, ids: Sequence[str]) -> set[str]:
    return {*rowsets.visible(s, ids), *rowsets.uncovered(s, ids)}


KIND = CatalogKind(
    name="compacted",
    retention="compacted_rowset_retention_seconds",
    expand=rowsets.expand,
    forget=_forget,
    live=_live,
    mended=rowsets.mended,
)
