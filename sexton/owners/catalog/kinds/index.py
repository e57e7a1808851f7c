"""Marks of dropped indexes: after their tablets in every partition, their schemas and records are removed."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select

from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    index = tx.t.indexes
    dropped_ids = tx.ids(select(index.c.id).where(tx.in_instance(index.c.id, ids), index.c.dropped))
    parents.forget_given_up(tx, "index", dropped_ids)
    tx.remove(tx.t.schemas.c.index_id, dropped_ids)
    tx.remove(index.c.id, dropped_ids)


KIND = CatalogKind(
    name="index",
    expand=partial(parents.wait, "index"),
    forget=_forget,
    live=partial(parents.live, "index"),
)
