"""Read marks as live entries: garbage that waits for deletion is known, and need not exist.

The files stored for a mark lie under the keys or prefix that the mark itself names, so the marks alone are enough. A
mark that names neither stands for records of the catalog, which names its files itself.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, or_, select

from sexton.database.engine import Database
from sexton.database.ranges import READ_ROWS, ranges, within
from sexton.marks.live import LiveEntry, Part

ORPHAN = "orphan"
"""The kind of the marks that a repair makes."""


def parts(db: Database, c: Connection, instance: str, rows: int) -> list[Part]:
    """Return ranges of about ``rows`` marks each."""
    mark = db.t.mark
    ids = select(mark.c.id).where(mark.c.instance == instance)
    return [Part("marks", *bounds) for bounds in ranges(c, ids, rows)]


def read(db: Database, c: Connection, instance: str, part: Part, vaults: Collection[str]) -> Iterator[list[LiveEntry]]:
    """Yield the entries that the marks of a part name, in pages.

    Marks that a check made of orphans are left out: the next check must find such an orphan again, or it is none. A
    mark that names no vault of the instance may mean any of them.
    """
    mark = db.t.mark
    names_files = or_(mark.c.prefix.is_not(None), mark.c["keys"].is_not(None))
    query: Any = select(mark.c.kind, mark.c.id, mark.c.vault, mark.c.prefix, mark.c["keys"]).where(
        mark.c.instance == instance, names_files, within(mark.c.id, part.after, part.until), ~found_by_check(mark)
    )
    for rows in c.execution_options(yield_per=READ_ROWS).execute(query).partitions():
        yield [entry for row in rows for entry in _entries(row, vaults)]


def found_by_check(mark: Table) -> ColumnElement[bool]:
    """Return the condition that a check made the mark of an orphan: such a mark names the exact object by its ETag."""
    return and_(mark.c.kind == ORPHAN, mark.c.etags.is_not(None))


def _entries(row: Any, vaults: Collection[str]) -> Iterator[LiveEntry]:
    """Yield the entries that one mark names."""
    kind, mark_id, vault, prefix, keys = row
    names: Iterable[Any] = keys if prefix is None else [prefix]
    possible_vaults = [vault] if vault in vaults else vaults
    for name in names:
        if isinstance(name, str) and name:
            for possible_vault in possible_vaults:
                yield LiveEntry(possible_vault, name, prefix is not None, live=False, record=f"{kind}/{mark_id}")
