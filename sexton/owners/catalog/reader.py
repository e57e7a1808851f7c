"""Show the catalog's records: to checks, to explanations, and to peers that compare them with their memory."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, and_, exists, select

from sexton.database.engine import Database
from sexton.database.ranges import within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import Ref
from sexton.owners.catalog import explain, front_end, live_files, parents, problems
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.plugin import OwnerContext
from sexton.owners.port import LiveParts, Owner, RecordText
from sexton.owners.reading import limit_statements, silent_on_error

KINDS_IN_MEMORY = ("table", "index", "partition", "tablet", "rowset")
"""The kinds of records that a front end should know, as ``record_ids`` shows them."""


class CatalogReader(Owner):
    """The part of the owner that only reads; each method opens one transaction."""

    def __init__(self, db: Database, context: OwnerContext | None = None) -> None:
        """Store the database. ``context``: names the front ends of instances; None: they have none."""
        self._db, self._context = db, context

    def live_as_of(self, instance: str) -> None:
        """Return None: the records are true when they are read."""

    def live_parts(self, instance: str, moment: str, connection: Connection, rows: int) -> LiveParts:
        """Return ranges of rowsets."""
        return LiveParts(live_files.parts(self._tx(connection, instance), rows))

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the files of the rowsets in a part."""
        with self._snapshot(instance, moment) as tx:
            yield from live_files.read(tx, part)

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the files of these rowsets (``rowset/ID``) now."""
        with self._read(instance) as tx:
            return live_files.entries_of(tx, records)

    def contradictions(self, instance: str) -> Iterator[RecordText]:
        """Yield references to missing records, and wrong counters."""
        with self._snapshot(instance) as tx:
            yield from problems.contradictions(tx)

    @contextmanager
    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[tuple[Connection, Select[Any]]]:
        """Open the ids of a kind that a peer should know: it need not know what was dropped."""
        with self._db.snapshot() as c:
            tx = self._tx(c, instance)
            t = tx.t
            of_tablet = exists().where(tx.is_own_tablet, parents.standing(tx))
            ids_and_conditions = {
                "table": (t.tables.c.id, parents.is_live(tx, "table")),
                "index": (t.indexes.c.id, parents.is_live(tx, "index")),
                "partition": (t.partitions.c.id, parents.is_live(tx, "partition")),
                "tablet": (t.tablets.c.id, parents.standing(tx)),
                "rowset": (t.rowsets.c.id, and_(t.rowsets.c.state == RowsetState.VISIBLE, of_tablet)),
            }
            if kind not in ids_and_conditions:
                known = ", ".join(ids_and_conditions)
                raise BadInput(f"the catalog has no records of kind {kind!r}; use one of: {known}")
            column, is_live = ids_and_conditions[kind]
            yield c, select(column.label("id")).where(tx.in_instance(column), is_live, within(column, after, until))

    def memory_kinds(self, instance: str) -> Sequence[str]:
        """Return the kinds that the front end of the instance is asked about, if it has one."""
        has_front_end = self._context is not None and front_end.options(self._context, instance).front_end
        return KINDS_IN_MEMORY if has_front_end else ()

    def memory_ids(self, instance: str, kind: str, after: str, limit: int) -> Sequence[str]:
        """Return the next ids that the front end has in memory."""
        return () if self._context is None else front_end.read_ids(self._context, instance, kind, after, limit)

    def refs_of_keys(self, instance: str, keys: Collection[str]) -> Collection[Ref]:
        """Return the marks that delete the files with these keys, or whose drop will mark the files."""
        with self._read(instance) as tx:
            return explain.refs_of_keys(tx, keys)

    def live_texts(self, instance: str, keys: Collection[str]) -> Iterator[str]:
        """Yield the visible rowsets that these keys name."""
        with self._read(instance) as tx:
            yield from explain.live_texts(tx, keys)

    def records_with(self, instance: str, ids: Collection[str]) -> Iterator[RecordText]:
        """Yield the records with one of these ids."""
        with self._read(instance) as tx:
            yield from explain.records_with(tx, ids)

    def _tx(self, c: Connection, instance: str) -> CatalogTransaction:
        return CatalogTransaction(self._db, c, instance)

    @contextmanager
    def _read(self, instance: str) -> Iterator[CatalogTransaction]:
        with self._silence(), self._db.read() as c:
            yield self._tx(c, instance)

    @contextmanager
    def _snapshot(self, instance: str, moment: str = "") -> Iterator[CatalogTransaction]:
        with self._silence(), self._db.snapshot(moment) as c:
            limit_statements(self._db, c)
            yield self._tx(c, instance)

    @contextmanager
    def _write(self, instance: str) -> Iterator[CatalogTransaction]:
        with self._silence(), self._db.write() as c:
            yield self._tx(c, instance)

    @staticmethod
    def _silence() -> Any:
        return silent_on_error("the catalog's tables cannot be read or written")
