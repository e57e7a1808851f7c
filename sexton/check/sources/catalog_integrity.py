"""Whether the catalog's records agree with each other: what names something without a record, and sums that are off."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Select, and_, exists, func, literal, or_, select

from sexton.check.model import Discrepancy, Type
from sexton.database.ranges import READ_ROWS
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def records(s: CatalogTransaction) -> Iterator[Discrepancy]:
    """Yield each record that does not agree, once for each way."""
    for what, chosen in _questions(s):
        for id_, detail in s.c.execution_options(yield_per=READ_ROWS).execute(chosen):
            yield Discrepancy(type=Type.RECORD, vault="", key=f"{what}/{id_}", detail=detail)


def _questions(s: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    t = s.t
    for above, table in (("table", t.tables), ("index", t.indexes), ("partition", t.partitions)):
        yield "tablet", _alone(s, t.tablets, table, f"{above}_id", f"its {above} has no record: ")
    for what, table in (("index", t.indexes), ("partition", t.partitions)):
        yield what, _alone(s, table, t.tables, "table_id", "its table has no record: ")
    yield "rowset", _alone(s, t.rowsets, t.tablets, "tablet_id", "its tablet has no record: ")
    yield (
        "version",
        _alone(s, t.versions, t.partitions, "partition_id", "its partition has no record: ", "partition_id"),
    )
    yield "label", _alone(s, t.labels, t.txns, "txn_id", "its transaction has no record: ", "label")
    rowset, schema = t.rowsets, t.schemas
    written = and_(
        schema.c.index_id == rowset.c.index_id,
        schema.c.version == rowset.c.schema_version,
        schema.c.instance == rowset.c.instance,
    )
    unnamed = select(rowset.c.id, literal("the schema it was written under has no record")).where(
        s.mine(rowset.c.id), rowset.c.state == RowsetState.VISIBLE, ~exists().where(written)
    )
    yield "rowset", unnamed
    stats = t.stats
    its = and_(
        rowset.c.tablet_id == stats.c.tablet_id,
        rowset.c.instance == stats.c.instance,
        rowset.c.state == RowsetState.VISIBLE,
    )
    number = select(func.count()).where(its).scalar_subquery()
    size = select(func.coalesce(func.sum(rowset.c.bytes), 0)).where(its).scalar_subquery()
    off = or_(stats.c.rowsets != number, stats.c.bytes != size)
    yield (
        "tablet",
        select(stats.c.tablet_id, literal("its counters differ from its visible rowsets")).where(
            s.mine(stats.c.tablet_id), off
        ),
    )


def _alone(s: CatalogTransaction, table: Any, above: Any, column: str, said: str, name: str = "id") -> Select[Any]:
    """Select the records whose parent has none."""
    there = exists().where(above.c.id == table.c[column], above.c.instance == table.c.instance)
    return select(table.c[name], literal(said) + table.c[column]).where(s.mine(table.c[name]), ~there)
