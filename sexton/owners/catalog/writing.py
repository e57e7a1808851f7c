"""Create rowsets: announce them before their first file, then make them visible under the next versions."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import bindparam, func, select, update

from sexton import contract
from sexton.owners.catalog.layout import rowset_prefix
from sexton.owners.catalog.model import Output, RowsetState
from sexton.owners.catalog.records import (
    add,
    check_some,
    check_vault,
    ensure_found,
    lock_tablets_against_drop,
    new_id,
    update_counters,
)
from sexton.owners.catalog.scope import CatalogTransaction


def prepare(tx: CatalogTransaction, writer: str, tablets: Sequence[str], vault: str, seconds: int) -> list[Output]:
    """Record rowsets that are about to be written, and mark them prepared.

    Args:
        tx: the transaction.
        writer: the ``owner_txn`` that writes them.
        tablets: one rowset is recorded for each.
        vault: where their files will be written.
        seconds: how long the writer may take.
    """
    check_some("tablets", tablets)
    check_vault(tx, vault)
    tablet_rows = lock_tablets_against_drop(tx, tablets)
    schema = tx.t.schemas
    indexes = {row.index_id for row in tablet_rows.values()}
    newest = select(schema.c.index_id, func.max(schema.c.version)).where(tx.in_instance(schema.c.index_id, indexes))
    versions = {row[0]: row[1] for row in tx.c.execute(newest.group_by(schema.c.index_id))}
    ensure_found(schema, indexes, versions)
    outputs, rowset_rows = [], []
    for tablet in tablets:
        rowset, index = new_id(), tablet_rows[tablet].index_id
        outputs.append(Output(rowset=rowset, tablet=tablet, vault=vault, prefix=rowset_prefix(tablet, rowset)))
        rowset_rows.append(
            {
                "id": rowset,
                "tablet_id": tablet,
                "index_id": index,
                "schema_version": versions[index],
                "state": RowsetState.PREPARED,
                "vault": vault,
                "owner_txn": writer,
                "segments": 0,
                "bytes": 0,
            }
        )
    add(tx, tx.t.rowsets, rowset_rows)
    ids, prefixes = [output.rowset for output in outputs], [output.prefix for output in outputs]
    contract.prepare(tx.c, tx.instance, writer, ids, vault, prefixes, seconds, parents=("tablet", list(tablets)))
    return outputs


def publish(tx: CatalogTransaction, new_rows: Sequence[Any]) -> None:
    """Make rowsets visible under the next versions of their partitions.

    A partition advances by as many versions as the tablet in it with the most new rowsets has.

    Args:
        tx: the transaction.
        new_rows: rows of ``rowsets``, in the order of their versions.
    """
    if not new_rows:
        return
    tablets = lock_tablets_against_drop(tx, {row.tablet_id for row in new_rows})
    last_versions = _lock_versions(tx, {tablet.partition_id for tablet in tablets.values()})
    rowsets_of_tablet: Counter[str] = Counter()
    new_versions: dict[str, int] = defaultdict(int)
    published = []
    for row in new_rows:
        rowsets_of_tablet[row.tablet_id] += 1
        position, partition = rowsets_of_tablet[row.tablet_id], tablets[row.tablet_id].partition_id
        new_versions[partition] = max(new_versions[partition], position)
        published.append({"rowset": row.id, "at": last_versions[partition] + position})
    rowset, version = tx.t.rowsets, tx.t.versions
    is_rowset = [rowset.c.instance == tx.instance, rowset.c.id == bindparam("rowset")]
    at = bindparam("at", type_=rowset.c.first_version.type)
    values = {"state": RowsetState.VISIBLE, "first_version": at, "last_version": at}
    in_order = sorted(published, key=lambda row: str(row["rowset"]))  # as all lock rowsets
    tx.c.execute(update(rowset).where(*is_rowset).values(**values), in_order)
    is_partition = [version.c.instance == tx.instance, version.c.partition_id == bindparam("partition")]
    value = version.c.value + bindparam("more", type_=version.c.value.type)
    moved = [{"partition": partition, "more": count} for partition, count in new_versions.items()]
    tx.c.execute(update(version).where(*is_partition).values(value=value), moved)
    update_counters(tx, tablets)


def _lock_versions(tx: CatalogTransaction, partitions: Collection[str]) -> dict[str, int]:
    """Return partition → its version, locked until the transaction ends."""
    version = tx.t.versions
    query = select(version.c.partition_id, version.c.value).where(tx.in_instance(version.c.partition_id, partitions))
    rows = tx.c.execute(query.order_by(version.c.partition_id).with_for_update())
    versions = {row.partition_id: row.value for row in rows}
    ensure_found(version, partitions, versions)
    return versions
