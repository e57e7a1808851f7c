"""Marks of dropped tables: one mark at the drop, one for each tablet when it is due; then the records are removed."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select

from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    t = tx.t
    dropped_ids = tx.ids(select(t.tables.c.id).where(tx.in_instance(t.tables.c.id, ids), t.tables.c.dropped))
    parents.forget_given_up(tx, "table", dropped_ids)
    indexes = tx.ids(select(t.indexes.c.id).where(tx.in_instance(t.indexes.c.table_id, dropped_ids)))
    tx.remove(t.schemas.c.index_id, indexes)
    tx.remove(t.indexes.c.id, indexes)
    tx.remove(t.partitions.c.table_id, dropped_ids)
    tx.remove(t.versions.c.table_id, dropped_ids)
    tx.remove(t.tables.c.id, dropped_ids)


KIND = CatalogKind(
    name="table",
    expand=partial(parents.wait, "table"),
    forget=_forget,
    live=partial(parents.live, "table"),
)
