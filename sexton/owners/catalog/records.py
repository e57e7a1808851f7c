"""What every operation of the catalog uses: a transaction over one instance's records, new rows, and what stands."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, func, insert, select
from sqlalchemy.exc import IntegrityError

from sexton.database.engine import Database
from sexton.owners.catalog.errors import AlreadyDropped, AlreadyThere, RecordNotFound
from sexton.owners.catalog.scope import CatalogTransaction


class CatalogRecords:
    """The records of one instance."""

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


def mint() -> str:
    """Return an id that nobody has used, not even before a restore."""
    return uuid.uuid4().hex


def add(s: CatalogTransaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of this instance.

    Raises:
        AlreadyThere: one of them is there.
    """
    if not rows:
        return
    try:
        s.c.execute(insert(table), [{"instance": s.instance, **row} for row in rows])
    except IntegrityError as e:
        raise AlreadyThere(f"{table.name} holds one of these already, and ids are never used again: {rows[0]}") from e


def stand(s: CatalogTransaction, table: Table, ids: Collection[str]) -> None:
    """Keep tables, indexes or partitions from being dropped until this transaction ends.

    Raises:
        NotFound: one has no record.
        Dropped: one was dropped.
    """
    chosen = select(table.c.id, table.c.dropped).where(s.mine(table.c.id, ids)).order_by(table.c.id)
    rows = s.c.execute(chosen.with_for_update(read=True)).all()
    found(table, ids, (r.id for r in rows))
    if gone := [r.id for r in rows if r.dropped]:
        raise AlreadyDropped(f"{', '.join(gone[:5])} (of {table.name}) was dropped; nothing is read or written there")


def stand_tablets(s: CatalogTransaction, ids: Collection[str]) -> dict[str, Any]:
    """Return the tablets' rows by id, all that is above them kept from being dropped; raises as ``stand`` does."""
    t = s.t.tablets
    rows = {r.id: r for r in s.c.execute(select(t).where(s.mine(t.c.id, ids)))}
    found(t, ids, rows)
    for above, column in ((s.t.tables, "table_id"), (s.t.indexes, "index_id"), (s.t.partitions, "partition_id")):
        stand(s, above, {r._mapping[column] for r in rows.values()})
    return rows


def found(table: Table, wanted: Collection[str], there: Any) -> None:
    """Raise ``RecordNotFound`` for what is wanted and not there."""
    if missing := sorted(set(wanted) - set(there)):
        raise RecordNotFound(f"{table.name} holds no {', '.join(missing[:5])}")


def count(s: CatalogTransaction, tablets: Collection[str]) -> None:
    """Bring the statistics of tablets up to date, by what is visible now."""
    stats, rowset = s.t.stats, s.t.rowsets
    its = (rowset.c.tablet_id == stats.c.tablet_id, rowset.c.instance == s.instance, rowset.c.state == "visible")
    values = {
        "rowsets": select(func.count()).where(*its).scalar_subquery(),
        "bytes": select(func.coalesce(func.sum(rowset.c.bytes), 0)).where(*its).scalar_subquery(),
    }
    # Locked by a statement of its own, so that the sums below see what others who held a row have committed.
    s.ids(
        select(stats.c.tablet_id)
        .where(s.mine(stats.c.tablet_id, tablets))
        .order_by(stats.c.tablet_id)
        .with_for_update()
    )
    s.c.execute(stats.update().where(s.mine(stats.c.tablet_id, tablets)).values(**values))
