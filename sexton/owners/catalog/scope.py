"""One instance's records inside one transaction: every module of the catalog that uses SQL takes this."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, and_, func, literal, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.owners.catalog.tables import TABLES, CatalogTables


@dataclass(frozen=True)
class CatalogTransaction:
    """A connection in a transaction, and the instance whose records it reads and writes."""

    db: Database
    c: Connection
    instance: str

    @cached_property
    def t(self) -> CatalogTables:
        """Return the catalog's tables."""
        return TABLES

    @property
    def is_own_schema(self) -> ColumnElement[bool]:
        """Return the condition that a schema is the one under which a rowset was written."""
        rowset, schema = self.t.rowsets, self.t.schemas
        return and_(
            schema.c.index_id == rowset.c.index_id,
            schema.c.version == rowset.c.schema_version,
            schema.c.instance == rowset.c.instance,
        )

    @property
    def is_own_tablet(self) -> ColumnElement[bool]:
        """Return the condition that a tablet is the one of a rowset."""
        rowset, tablet = self.t.rowsets, self.t.tablets
        return and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance)

    def in_instance(self, column: Column[Any], ids: Iterable[str] | None = None) -> ColumnElement[bool]:
        """Return the condition that a row belongs to this instance, and its column is one of the ids (None: any)."""
        is_own = column.table.c.instance == self.instance
        return is_own if ids is None else and_(is_own, in_list(column, ids))

    def ids(self, query: Select[Any]) -> list[str]:
        """Return the first column of a query."""
        return [str(id_) for id_ in self.c.execute(query).scalars()]

    def remove(self, column: Column[Any], ids: Collection[str], *only: ColumnElement[bool]) -> None:
        """Remove the rows whose column is one of the ids and for which the conditions hold."""
        if ids:
            self.c.execute(column.table.delete().where(self.in_instance(column, ids), *only))

    def lock_rowsets(self, tablets: Collection[str]) -> None:
        """Lock the rowsets of tablets in the order of their ids, as late writers do; a removal alone has no order."""
        rowset = self.t.rowsets
        of_tablets = select(rowset.c.id).where(self.in_instance(rowset.c.tablet_id, tablets)).order_by(rowset.c.id)
        self.c.execute(select(func.count()).select_from(of_tablets.with_for_update().subquery()))

    def has_mark(self, t: Table, kind: str, id_: ColumnElement[str]) -> ColumnElement[bool]:
        """Return the condition that a mark of this kind has the id of the row at hand.

        Each row is looked up by its id alone, whatever statistics PostgreSQL has. Where it expects few marks, it would
        join EXISTS and compare all rows with each other, and read all marks of a kind to find one.

        Args:
            t: ``mark`` or ``mark_history``.
            kind: the kind.
            id_: a column of the row.
        """
        of_row = select(literal(1)).where(t.c.id == id_, t.c.kind + "" == kind, t.c.instance + "" == self.instance)
        return of_row.scalar_subquery().is_not(None)

    def mark(self, kind: str, query: Select[Any]) -> None:
        """Mark the selected objects by one statement; objects that are marked or were deleted are left out.

        Args:
            kind: kind of the new marks.
            query: selects id, parent_kind, parent_id, prefix and bytes.
        """
        mark, history = self.db.t.mark, self.db.t.mark_history
        new = query.subquery("new")
        is_unmarked = [~self.has_mark(t, kind, new.c.id) for t in (mark, history)]
        names = ["id", "parent_kind", "parent_id", "prefix", "bytes"]
        rows = select(literal(self.instance), literal(kind), *[new.c[n] for n in names]).where(*is_unmarked)
        # Ordered by an expression, so that the sort comes last, and everything is looked up before the first row is
        # written. A planner that assumes a tiny table of marks would otherwise read the rows that this statement adds
        # again and again.
        rows = rows.order_by(new.c.id + "")
        insert = upsert(mark).from_select(["instance", "kind", *names], rows)
        self.c.execute(insert.on_conflict_do_nothing())
