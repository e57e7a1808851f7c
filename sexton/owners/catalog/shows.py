"""Show what the catalog has: its tables with their parts, and the rowsets of a tablet."""

from collections import defaultdict
from typing import Any

from sqlalchemy import Table, func, select

from sexton.database.rows import sum_of
from sexton.kernel.errors import BadInput
from sexton.owners.catalog.model import ShownPart, ShownRowset, ShownTable
from sexton.owners.catalog.records import CatalogRecords
from sexton.owners.catalog.scope import CatalogTransaction

MOST_SHOWN = 1_000


class Shows(CatalogRecords):
    """What people and programs read of the catalog, a page at a time."""

    def show(self, after: str = "", limit: int = 100) -> list[ShownTable]:
        """Return tables with their indexes and partitions, by id.

        Args:
            after: the last id of the page before; empty: the first page.
            limit: tables of a page, at most 1,000.
        """
        with self._read() as tx:
            t = tx.t.tables
            query = select(t.c.id, t.c.dropped).where(tx.in_instance(t.c.id), t.c.id > after)
            tables = {row.id: row.dropped for row in tx.c.execute(query.order_by(t.c.id).limit(_checked(limit)))}
            indexes, partitions = (_parts(tx, part, list(tables)) for part in (tx.t.indexes, tx.t.partitions))
            sizes = _sizes(tx, list(tables))
            return [
                ShownTable(
                    id=id_,
                    dropped=dropped,
                    indexes=tuple(indexes[id_]),
                    partitions=tuple(partitions[id_]),
                    **sizes.get(id_, {}),
                )
                for id_, dropped in tables.items()
            ]

    def rowsets(self, tablet: str, after: str = "", limit: int = 100) -> list[ShownRowset]:
        """Return the rowsets of a tablet, by id.

        ``after`` and ``limit``: as in ``show``.
        """
        with self._read() as tx:
            t = tx.t.rowsets
            columns = [t.c[name] for name in ShownRowset.model_fields]
            query = select(*columns).where(tx.in_instance(t.c.tablet_id, [tablet]), t.c.id > after)
            rows = tx.c.execute(query.order_by(t.c.id).limit(_checked(limit)))
            return [ShownRowset(**row._mapping) for row in rows]


def _parts(tx: CatalogTransaction, part: Table, tables: list[str]) -> dict[str, list[ShownPart]]:
    """Return table → its indexes, or its partitions."""
    parts: dict[str, list[ShownPart]] = defaultdict(list)
    query = select(part.c.table_id, part.c.id, part.c.dropped).where(tx.in_instance(part.c.table_id, tables))
    for row in tx.c.execute(query.order_by(part.c.id)):
        parts[row.table_id].append(ShownPart(id=row.id, dropped=row.dropped))
    return parts


def _sizes(tx: CatalogTransaction, tables: list[str]) -> dict[str, dict[str, Any]]:
    """Return table → the sums over its tablets."""
    tablet, stats = tx.t.tablets, tx.t.stats
    is_own = (stats.c.tablet_id == tablet.c.id) & (stats.c.instance == tablet.c.instance)
    sums = [func.count().label("tablets"), *(sum_of(stats.c[n]).label(n) for n in ("rowsets", "bytes"))]
    query = select(tablet.c.table_id, *sums).select_from(tablet.outerjoin(stats, is_own))
    rows = tx.c.execute(query.where(tx.in_instance(tablet.c.table_id, tables)).group_by(tablet.c.table_id))
    return {row.table_id: {n: int(getattr(row, n)) for n in ("tablets", "rowsets", "bytes")} for row in rows}


def _checked(limit: int) -> int:
    if not 0 < limit <= MOST_SHOWN:
        raise BadInput(f"limit is {limit}; it must be 1 to {MOST_SHOWN}")
    return limit
