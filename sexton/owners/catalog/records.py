"""Helpers of the catalog's operations: transactions over one instance's records, inserts, locks and counters."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, func, insert, select
from sqlalchemy.exc import IntegrityError

from sexton.contract import MAX_TTL_SECONDS
from sexton.database.engine import Database
from sexton.database.rows import sum_of
from sexton.kernel.errors import BadInput
from sexton.owners.catalog.errors import AlreadyDropped, AlreadyThere, RecordNotFound
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


class CatalogRecords:
    """Opens transactions over the records of one instance."""

    def __init__(self, db: Database, instance: str) -> None:
        self._db = db
        self._instance = instance

    @contextmanager
    def _read(self) -> Iterator[CatalogTransaction]:
        with self._db.read() as c:
            yield CatalogTransaction(self._db, c, self._instance)

    @contextmanager
    def _write(self) -> Iterator[CatalogTransaction]:
        with self._db.write() as c:
            yield CatalogTransaction(self._db, c, self._instance)


def new_id() -> str:
    """Return an id that was never used, not even before a restore of the database."""
    return uuid.uuid4().hex


def add(tx: CatalogTransaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of this instance.

    Raises:
        AlreadyThere: a row with one of the ids exists.
    """
    if not rows:
        return
    try:
        tx.c.execute(insert(table), [{"instance": tx.instance, **row} for row in rows])
    except IntegrityError as e:
        raise AlreadyThere(
            f"one of these ids is among the {title(table)} already; use new ids, as ids are never used again: {rows[0]}"
        ) from e


def check_unused(tx: CatalogTransaction, kind: str, *ids: str) -> None:
    """Raise ``AlreadyThere`` for an id that was dropped: its deletion would delete what has the same id."""
    t = tx.t
    queries = [
        select(marks.c.id).where(tx.in_instance(marks.c.id, ids), marks.c.kind == kind)
        for marks in (tx.db.t.mark, tx.db.t.mark_history)
    ]
    parent = t.tablets.c[f"{kind}_id"]  # a tablet whose mark was discarded stays, and would belong to the new object
    queries.append(select(parent).where(tx.in_instance(parent, ids)))
    for query in queries:
        if used := tx.ids(query.limit(1)):
            raise AlreadyThere(f"{kind} {used[0]} was used before, and dropped; use a new id: ids are never used again")


def lock_against_drop(tx: CatalogTransaction, table: Table, ids: Collection[str]) -> None:
    """Prevent that tables, indexes or partitions are dropped before this transaction ends.

    Raises:
        RecordNotFound: one has no record.
        AlreadyDropped: one was dropped.
    """
    query = select(table.c.id, table.c.dropped).where(tx.in_instance(table.c.id, ids)).order_by(table.c.id)
    rows = tx.c.execute(query.with_for_update(read=True)).all()
    ensure_found(table, ids, (row.id for row in rows))
    if dropped := [row.id for row in rows if row.dropped]:
        raise AlreadyDropped(f"{', '.join(dropped[:5])} of the {title(table)} was dropped; undrop it to use it again")


def lock_tablets_against_drop(tx: CatalogTransaction, ids: Collection[str]) -> dict[str, Any]:
    """Prevent that the parents of tablets are dropped before this transaction ends; return tablet id → row.

    Raises as ``lock_against_drop`` does.
    """
    t = tx.t.tablets
    rows = {row.id: row for row in tx.c.execute(select(t).where(tx.in_instance(t.c.id, ids)))}
    ensure_found(t, ids, rows)
    for parents, column in ((tx.t.tables, "table_id"), (tx.t.indexes, "index_id"), (tx.t.partitions, "partition_id")):
        lock_against_drop(tx, parents, {row._mapping[column] for row in rows.values()})
    return rows


def check_vault(tx: CatalogTransaction, vault: str) -> None:
    """Raise ``BadInput`` for a vault that the instance does not have: its files could never be deleted."""
    t = tx.db.t.vault
    if tx.c.execute(select(t.c.name).where(t.c.instance == tx.instance, t.c.name == vault)).first() is None:
        raise BadInput(f"instance {tx.instance} has no vault {vault!r}; register it with: sexton vault add")


def check_seconds(what: str, seconds: int) -> None:
    """Raise ``BadInput`` for a time span that is not above 0 and at most 366 days."""
    if not 0 < seconds <= MAX_TTL_SECONDS:
        raise BadInput(f"{what} is {seconds}; it must be 1 to {MAX_TTL_SECONDS}")


def check_some(what: str, values: Collection[object]) -> None:
    """Raise ``BadInput`` for a list without values."""
    if not values:
        raise BadInput(f"{what}: name at least one")


def title(table: Table) -> str:
    """Return how people call the records of a table."""
    return table.name.removeprefix("catalog_").replace("_", " ")


def ensure_found(table: Table, ids: Collection[str], found_ids: Iterable[str]) -> None:
    """Raise ``RecordNotFound`` for ids that were not found."""
    if missing := sorted(set(ids) - set(found_ids)):
        raise RecordNotFound(f"there is no {', '.join(missing[:5])} among the {title(table)}")


def update_counters(tx: CatalogTransaction, tablets: Collection[str]) -> None:
    """Set the counters of tablets to the sums over their visible rowsets."""
    stats, rowset = tx.t.stats, tx.t.rowsets
    is_visible = (
        rowset.c.tablet_id == stats.c.tablet_id,
        rowset.c.instance == tx.instance,
        rowset.c.state == RowsetState.VISIBLE,
    )
    values = {
        "rowsets": select(func.count()).where(*is_visible).scalar_subquery(),
        "bytes": select(sum_of(rowset.c.bytes)).where(*is_visible).scalar_subquery(),
    }
    # Locked by a statement of its own, so that the sums see what earlier holders of these locks have committed.
    tx.ids(
        select(stats.c.tablet_id)
        .where(tx.in_instance(stats.c.tablet_id, tablets))
        .order_by(stats.c.tablet_id)
        .with_for_update()
    )
    tx.c.execute(stats.update().where(tx.in_instance(stats.c.tablet_id, tablets)).values(**values))
