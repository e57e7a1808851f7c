"""A dropped index: its tablets in every partition, then its schemas and itself."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select

from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    index = s.t.indexes
    gone = s.ids(select(index.c.id).where(s.mine(index.c.id, ids), index.c.dropped))
    s.remove(s.t.schemas.c.index_id, gone)
    s.remove(index.c.id, gone)


KIND = CatalogKind(
    name="index",
    retention="dropped_index_retention_seconds",
    expand=partial(parents.wait, "index"),
    forget=_forget,
    live=partial(parents.live, "index"),
)
