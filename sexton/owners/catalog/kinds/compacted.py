"""Marks of compacted rowsets: deleted by exact file names, while visible rowsets hold their versions."""

from collections.abc import Sequence

from sexton.owners.catalog import rowsets
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    rowsets.forget(tx, ids, RowsetState.COMPACTED, RowsetState.DROPPED)


def _live(tx: CatalogTransaction, ids: Sequence[str]) -> set[str]:
    return {*rowsets.visible(tx, ids), *rowsets.uncovered(tx, ids)}


KIND = CatalogKind(
    name="compacted",
    expand=rowsets.expand,
    forget=_forget,
    live=_live,
    resolvable=rowsets.resolvable,
)
