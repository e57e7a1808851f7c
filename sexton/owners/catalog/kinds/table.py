"""A dropped table: one mark at the drop; each tablet gets its own when it is due; then the records of the table go."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select

from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    t = s.t
    gone = s.ids(select(t.tables.c.id).where(s.mine(t.tables.c.id, ids), t.tables.c.dropped))
    indexes = s.ids(select(t.indexes.c.id).where(s.mine(t.indexes.c.table_id, gone)))
    s.remove(t.schemas.c.index_id, indexes)
    s.remove(t.indexes.c.id, indexes)
    s.remove(t.partitions.c.table_id, gone)
    s.remove(t.versions.c.table_id, gone)
    s.remove(t.tables.c.id, gone)


KIND = CatalogKind(
    name="table",
    retention="dropped_index_retention_seconds",
    expand=partial(parents.wait, "table"),
    forget=_forget,
    live=partial(parents.live, "table"),
)
