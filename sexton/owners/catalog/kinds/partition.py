"""Marks of dropped partitions: after their tablets in every index, their versions and records are removed."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select

from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    partition = tx.t.partitions
    dropped_ids = tx.ids(select(partition.c.id).where(tx.in_instance(partition.c.id, ids), partition.c.dropped))
    parents.forget_given_up(tx, "partition", dropped_ids)
    tx.remove(tx.t.versions.c.partition_id, dropped_ids)
    tx.remove(partition.c.id, dropped_ids)


KIND = CatalogKind(
    name="partition",
    expand=partial(parents.wait, "partition"),
    forget=_forget,
    live=partial(parents.live, "partition"),
)
