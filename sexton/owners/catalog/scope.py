"""One instance's records inside one transaction: what every module of the catalog that speaks SQL is handed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, and_, exists, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.owners.catalog.tables import CatalogTables, build


@dataclass(frozen=True)
class CatalogTransaction:
    """A connection in a transaction, and whose records are meant."""

    db: Database
    c: Connection
    instance: str

    @cached_property
    def t(self) -> CatalogTables:
        """Return the catalog's tables."""
        return build(self.db.dialect)

    def mine(self, column: Column[Any], ids: Iterable[str] | None = None) -> ColumnElement[bool]:
        """Return the condition that a row is this instance's, and that the column is one of the ids."""
        ours = column.table.c.instance == self.instance
        return ours if ids is None else and_(ours, in_list(self.db, column, ids))

    def ids(self, chosen: Select[Any]) -> list[str]:
        """Return the first column of what is selected."""
        return [str(i) for i in self.c.execute(chosen).scalars()]

    def remove(self, column: Column[Any], ids: Collection[str], *only: ColumnElement[bool]) -> None:
        """Remove the rows whose column is one of the ids and for which the conditions hold."""
        if ids:
            self.c.execute(column.table.delete().where(self.mine(column, ids), *only))

    def mark(self, kind: str, chosen: Select[Any]) -> None:
        """Mark what is selected, in one statement; what is marked or gone already is left out.

        Args:
            kind: of the new marks.
            chosen: columns id, parent_kind, parent_id, prefix, bytes.
        """
        mark, history = self.db.t.mark, self.db.t.mark_history
        new = chosen.subquery("new")
        unknown = [
            ~exists().where(t.c.instance == self.instance, t.c.kind == kind, t.c.id == new.c.id)
            for t in (mark, history)
        ]
        names = ["id", "parent_kind", "parent_id", "prefix", "bytes"]
        rows = select(literal(self.instance), literal(kind), *[new.c[n] for n in names]).where(*unknown)
        dialect = postgresql if self.db.dialect == "postgresql" else sqlite
        # By an expression, so that it is sorted last: all is looked up before the first row is written. A planner
        # that takes the table of marks for tiny would read again and again what this statement adds to it.
        rows = rows.order_by(new.c.id + "")
        into = dialect.insert(mark).from_select(["instance", "kind", *names], rows)
        self.c.execute(into.on_conflict_do_nothing())
