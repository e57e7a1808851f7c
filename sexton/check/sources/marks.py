"""Marks as the check's live side reads them: what waits to be deleted is known, and need not be there.

What is stored of a mark's files lies under what the mark itself names, so the marks alone say it all; those that name
nothing stand for records of the catalog, which names its files itself.
"""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, or_, select

from sexton.database.engine import Database
from sexton.database.ranges import READ_ROWS, ranges, within
from sexton.marks.live import LiveEntry, Part

ORPHAN = "orphan"


def parts(db: Database, c: Connection, instance: str, rows: int) -> list[Part]:
    """Return ranges of about so many marks."""
    mark = db.t.mark
    return [Part("marks", *ends) for ends in ranges(c, select(mark.c.id).where(mark.c.instance == instance), rows)]


def read(db: Database, c: Connection, instance: str, part: Part, vaults: Collection[str]) -> Iterator[list[LiveEntry]]:
    """Yield what the marks of a part name, in pages.

    What a check has marked as an orphan is left out: the next one must find it again, or it is none. A mark that names
    no vault of the instance may mean any of them.
    """
    mark = db.t.mark
    named = or_(mark.c.prefix.is_not(None), mark.c["keys"].is_not(None))
    chosen: Any = select(mark.c.kind, mark.c.id, mark.c.vault, mark.c.prefix, mark.c["keys"]).where(
        mark.c.instance == instance, named, within(mark.c.id, part.after, part.until), ~found_by_check(mark)
    )
    for rows in c.execution_options(yield_per=READ_ROWS).execute(chosen).partitions():
        found: list[LiveEntry] = []
        for kind, id_, vault, prefix, keys in rows:
            record, meant = f"{kind}/{id_}", [vault] if vault in vaults else vaults
            places = [(prefix, True)] if prefix is not None else [(key, False) for key in keys]
            texts = [(key, wide) for key, wide in places if isinstance(key, str) and key]
            found += [LiveEntry(v, key, wide, False, None, record) for key, wide in texts for v in meant]
        yield found


def found_by_check(mark: Table) -> ColumnElement[bool]:
    """Return the condition that a check made the mark, of an orphan: it knows which object it means."""
    return and_(mark.c.kind == ORPHAN, mark.c.etags.is_not(None))
