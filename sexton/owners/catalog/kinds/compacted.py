"""A rowset that a compaction replaced: its files by their names, as long as visible rowsets hold its versions."""

from collections.abc import Sequence

from sexton.owners.catalog import rowsets
from sexton.owners.catalog.kind import Kind
from sexton.owners.catalog.model import State
from sexton.owners.catalog.scope import Scope


def _forget(s: Scope, ids: Sequence[str]) -> None:
    rowsets.forget(s, ids, State.COMPACTED, State.DROPPED)


def _live(s: Scope, ids: Sequence[str]) -> set[str]:
    return {*rowsets.visible(s, ids), *rowsets.uncovered(s, ids)}


KIND = Kind(
    name="compacted",
    retention="compacted_rowset_retention_seconds",
    expand=rowsets.expand,
    forget=_forget,
    live=_live,
    mended=rowsets.mended,
)
