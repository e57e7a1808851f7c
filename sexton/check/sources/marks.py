"""Read marks as live entries: garbage that waits for deletion is known, and need not exist.

The files stored for a mark lie under the keys or prefix that the mark itself names, so the marks alone are enough. A
mark that names neither stands for records of its owner, which names their files itself.

The primary key of ``mark`` begins with the id, so it leads to no instance (docs/adr/0007). Three partial indexes do:
each mark of an instance is in exactly one of them, and each source reads one.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, func, or_, select, true

from sexton.database.engine import Database
from sexton.database.ranges import ALL_ROWS, beyond
from sexton.marks.live import LiveEntry, Part
from sexton.marks.sql.orphans import found_by_check
from sexton.marks.sql.rows import CLAIMED, waits

WAITING, CLAIMED_MARKS, QUARANTINED = "waiting marks", "claimed marks", "quarantined marks"
SOURCES = (WAITING, CLAIMED_MARKS, QUARANTINED)
"""The sources of marks; together they hold each mark once."""
MARKS_AT_ONCE = 50
"""Rows that are in memory at once: a mark may name 1,000 keys of 1,024 bytes."""


def parts(db: Database, c: Connection, instance: str, rows: int) -> list[Part]:
    """Return the parts of the marks: ranges of about ``rows`` waiting marks each, and the other sources whole."""
    mark = db.t.mark
    position = (mark.c.kind, mark.c.retention_starts_at, mark.c.id)
    others = [Part(CLAIMED_MARKS), Part(QUARANTINED)]
    if rows >= ALL_ROWS:
        return [Part(WAITING), *others]
    number = func.row_number().over(order_by=position).label("number")
    numbered = select(*position, number).where(is_in(mark, instance, WAITING)).subquery()
    ends = select(numbered).where(numbered.c.number % rows == 0).order_by(numbered.c.number)
    points = ["", *(f"{row.kind}/{row.retention_starts_at}/{row.id}" for row in c.execute(ends)), ""]
    ranges = [Part(WAITING, *bounds) for bounds in pairwise(points)]
    return [*ranges, *others]


def read(db: Database, c: Connection, instance: str, part: Part, vaults: Collection[str]) -> Iterator[list[LiveEntry]]:
    """Yield the entries that the marks of a part name, in pages.

    Marks that a check made of orphans are left out: the next check must find such an orphan again, or it is none. A
    mark that names no vault of the instance may mean any of them.
    """
    mark = db.t.mark
    names_files = or_(mark.c.prefix.is_not(None), mark.c["keys"].is_not(None))
    columns = (mark.c.kind, mark.c.id, mark.c.vault, mark.c.prefix, mark.c["keys"])
    in_part = and_(is_in(mark, instance, part.source), _between(mark, part))
    query: Any = select(*columns).where(in_part, names_files, ~found_by_check(mark))
    for rows in c.execution_options(yield_per=MARKS_AT_ONCE).execute(query).partitions():
        yield [entry for row in rows for entry in _entries(row, vaults)]


def is_in(mark: Table, instance: str, source: str) -> ColumnElement[bool]:
    """Return the condition that a mark of the instance is in a source: that of the source's partial index."""
    conditions = {
        WAITING: waits(mark),
        CLAIMED_MARKS: mark.c.state == CLAIMED,
        QUARANTINED: and_(mark.c.state != CLAIMED, mark.c.quarantined_reason.is_not(None)),
    }
    return and_(mark.c.instance == instance, conditions[source])


def _between(mark: Table, part: Part) -> ColumnElement[bool]:
    """Return the condition that a waiting mark is in the range of a part, as a range of the index."""
    position = (mark.c.kind, mark.c.retention_starts_at, mark.c.id)
    lower = [beyond(position, _position(part.after))] if part.after else []
    upper = [~beyond(position, _position(part.until))] if part.until else []
    return and_(true(), *lower, *upper)


def _position(bound: str) -> tuple[str, int, str]:
    kind, retention_starts_at, mark_id = bound.split("/", 2)
    return kind, int(retention_starts_at), mark_id


def _entries(row: Any, vaults: Collection[str]) -> Iterator[LiveEntry]:
    """Yield the entries that one mark names."""
    kind, mark_id, vault, prefix, keys = row
    names: Iterable[Any] = keys if prefix is None else [prefix]
    possible_vaults = [vault] if vault in vaults else vaults
    for name in names:
        if isinstance(name, str) and name:
            for possible_vault in possible_vaults:
                yield LiveEntry(possible_vault, name, prefix is not None, live=False, record=f"{kind}/{mark_id}")
