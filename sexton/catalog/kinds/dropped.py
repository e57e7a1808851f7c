"""A rowset that was dropped by itself: its files by their names."""

from collections.abc import Sequence

from sexton.catalog import rowsets
from sexton.catalog.kind import Kind
from sexton.catalog.model import State
from sexton.catalog.scope import Scope


def _forget(s: Scope, ids: Sequence[str]) -> None:
    rowsets.forget(s, ids, State.COMPACTED, State.DROPPED)


KIND = Kind(
    name="dropped",
    retention="dropped_partition_retention_seconds",
    expand=rowsets.expand,
    forget=_forget,
    live=rowsets.visible,
    mended=rowsets.mended,
)
