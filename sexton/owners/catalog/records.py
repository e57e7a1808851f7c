"""One instance's records inside one transaction: every module of the catalog that uses SQL takes it."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, and_, exists, func, insert, literal, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError

from sexton.contract import MAX_TTL_SECONDS
from sexton.database.engine import Database
from sexton.database.rows import in_list, sum_of
from sexton.kernel.errors import WrongUsage
from sexton.owners.catalog.model import AlreadyDropped, AlreadyThere, RecordNotFound, RowsetState
from sexton.owners.catalog.tables import TABLES, CatalogTables

PARENTS: dict[str, Table] = {"partition": TABLES.partitions, "index": TABLES.indexes, "table": TABLES.tables}
"""The kinds of a tablet's parents and their records, in the order in which they mark tablets: the narrow ones first."""
OWN_TABLET = and_(
    TABLES.tablets.c.id == TABLES.rowsets.c.tablet_id, TABLES.tablets.c.instance == TABLES.rowsets.c.instance
)
"""The condition that a tablet is the one of a rowset."""
OWN_SCHEMA = and_(
    TABLES.schemas.c.index_id == TABLES.rowsets.c.index_id,
    TABLES.schemas.c.version == TABLES.rowsets.c.schema_version,
    TABLES.schemas.c.instance == TABLES.rowsets.c.instance,
)
"""The condition that a schema is the one under which a rowset was written."""


def parent_column(kind: str) -> Column[Any]:
    """Return the column of tablets that names the parent of this kind."""
    return TABLES.tablets.c[f"{kind}_id"]


STANDING = and_(
    *(
        exists().where(p.c.id == parent_column(kind), p.c.instance == TABLES.tablets.c.instance, ~p.c.dropped)
        for kind, p in PARENTS.items()
    )
)
"""The condition that a tablet's table, index and partition have records, and nothing of it was dropped."""


@dataclass(frozen=True)
class CatalogTransaction:
    """A connection in a transaction, and the instance whose records it reads and writes."""

    db: Database
    c: Connection
    instance: str
    t: CatalogTables = TABLES

    def in_instance(self, column: Column[Any], ids: Iterable[str] | None = None) -> ColumnElement[bool]:
        """Return the condition that a row belongs to this instance, and its column is one of the ids (None: any)."""
        is_own = column.table.c.instance == self.instance
        return is_own if ids is None else and_(is_own, in_list(column, ids))

    def ids(self, query: Select[Any]) -> list[str]:
        """Return the first column of a query."""
        return [str(id_) for id_ in self.c.execute(query).scalars()]

    def change(self, column: Column[Any], ids: Iterable[str], *only: ColumnElement[bool], **values: Any) -> int:
        """Set values of the rows whose column is one of the ids and for which the conditions hold; count them."""
        rows = column.table.update().where(self.in_instance(column, ids), *only)
        return self.c.execute(rows.values(**values)).rowcount

    def remove(self, column: Column[Any], ids: Collection[str], *only: ColumnElement[bool]) -> None:
        """Remove the rows whose column is one of the ids and for which the conditions hold."""
        if ids:
            self.c.execute(column.table.delete().where(self.in_instance(column, ids), *only))

    def lock_rowsets(self, column: Column[Any], ids: Collection[str]) -> None:
        """Lock rowsets in the order of their ids, as late writers do; a removal alone has no order."""
        rowset = self.t.rowsets
        rows = select(rowset.c.id).where(self.in_instance(column, ids)).order_by(rowset.c.id).with_for_update()
        self.c.execute(select(func.count()).select_from(rows.subquery()))

    def has_mark(self, t: Table, kind: str, id_: ColumnElement[str]) -> ColumnElement[bool]:
        """Return the condition that a row of ``mark`` or ``mark_history`` of this kind has the id of the row at hand.

        Each row is looked up by its id alone, whatever statistics PostgreSQL has. Where it expects few marks, it would
        join EXISTS and compare all rows with each other, and read all marks of a kind to find one.
        """
        of_row = select(literal(1)).where(t.c.id == id_, t.c.kind + "" == kind, t.c.instance + "" == self.instance)
        return of_row.scalar_subquery().is_not(None)

    def mark(self, kind: str, query: Select[Any]) -> None:
        """Mark the selected objects by one statement; objects that are marked or were deleted are left out.

        ``query`` selects id, and perhaps parent_kind, parent_id, prefix and bytes.
        """
        mark, history = self.db.t.mark, self.db.t.mark_history
        new = query.subquery("new")
        is_unmarked = [~self.has_mark(t, kind, new.c.id) for t in (mark, history)]
        names = new.c.keys()
        rows = select(literal(self.instance), literal(kind), *[new.c[n] for n in names]).where(*is_unmarked)
        # Ordered by an expression, so that the sort comes last, and everything is looked up before the first row is
        # written. A planner that assumes a tiny table of marks would otherwise read the rows that this statement adds
        # again and again.
        rows = rows.order_by(new.c.id + "")
        self.c.execute(upsert(mark).from_select(["instance", "kind", *names], rows).on_conflict_do_nothing())


def new_id() -> str:
    """Return an id that was never used, not even before a restore of the database."""
    return uuid.uuid4().hex


def add(tx: CatalogTransaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of this instance; ``AlreadyThere``: a row with one of the ids exists."""
    if not rows:
        return
    try:
        tx.c.execute(insert(table), [{"instance": tx.instance, **row} for row in rows])
    except IntegrityError as e:
        raise AlreadyThere(
            f"one of these ids is among the {table.name} already; use new ids, as ids are never used again: {rows[0]}"
        ) from e


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
        raise AlreadyDropped(f"{', '.join(dropped[:5])} of the {table.name} was dropped; undrop it to use it again")


def lock_tablets_against_drop(tx: CatalogTransaction, ids: Collection[str]) -> dict[str, Any]:
    """Prevent that the parents of tablets are dropped before this transaction ends; return tablet id → row.

    Raises as ``lock_against_drop`` does.
    """
    t = tx.t.tablets
    rows = {row.id: row for row in tx.c.execute(select(t).where(tx.in_instance(t.c.id, ids)))}
    ensure_found(t, ids, rows)
    for kind in reversed(PARENTS):
        lock_against_drop(tx, PARENTS[kind], {row._mapping[f"{kind}_id"] for row in rows.values()})
    return rows


def check_seconds(what: str, seconds: int) -> None:
    """Raise ``BadInput`` for a time span that is not above 0 and at most 366 days."""
    if not 0 < seconds <= MAX_TTL_SECONDS:
        raise WrongUsage(f"{what} is {seconds}; it must be 1 to {MAX_TTL_SECONDS}")


def check_some(what: str, values: Collection[object]) -> None:
    """Raise ``BadInput`` for a list without values."""
    if not values:
        raise WrongUsage(f"{what}: name at least one")


def ensure_found(table: Table, ids: Collection[str], found_ids: Iterable[str]) -> None:
    """Raise ``RecordNotFound`` for ids that were not found."""
    if missing := sorted(set(ids) - set(found_ids)):
        raise RecordNotFound(f"there is no {', '.join(missing[:5])} among the {table.name}")


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
    of_tablets = tx.in_instance(stats.c.tablet_id, tablets)
    tx.ids(select(stats.c.tablet_id).where(of_tablets).order_by(stats.c.tablet_id).with_for_update())
    tx.c.execute(stats.update().where(of_tablets).values(**values))
