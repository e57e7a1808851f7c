"""A dropped partition: its tablets in every index, then its version and itself."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select

from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    partition = s.t.partitions
    gone = s.ids(select(partition.c.id).where(s.mine(partition.c.id, ids), partition.c.dropped))
    s.remove(s.t.versions.c.partition_id, gone)
    s.remove(partition.c.id, gone)


KIND = CatalogKind(
    name="partition",
    retention="dropped_partition_retention_seconds",
    expand=partial(parents.wait, "partition"),
    forget=_forget,
    live=partial(parents.live, "partition"),
)
