"""Read the live side of a check in one snapshot: the owner's live files, and the marks.

Marks are live entries that need not exist: garbage that waits for deletion is known. The files stored for a mark lie
under the keys or prefix that the mark itself names, so the marks alone are enough. A mark that names neither stands for
records of its owner, which names their files itself.

The primary key of ``mark`` begins with the id, so it leads to no instance (docs/adr/0007). Three partial indexes do:
each mark of an instance is in exactly one of them, and each source reads one. The parts are read in parallel, also on
other machines.
"""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, func, or_, select

from sexton.check.model import Heartbeat, Moment
from sexton.database.engine import Database
from sexton.database.rows import ALL_ROWS, beyond
from sexton.marks.live import LiveEntry, LivePage, Part
from sexton.marks.sql.orphans import found_by_check
from sexton.marks.sql.rows import CLAIMED, waits
from sexton.operators.registry.store import Registry
from sexton.owners.plugin import STATEMENT_SECONDS, silent_on_error
from sexton.owners.port import Owner

WAITING, CLAIMED_MARKS, QUARANTINED = "waiting marks", "claimed marks", "quarantined marks"
SOURCES = (WAITING, CLAIMED_MARKS, QUARANTINED)
"""The sources of marks; together they hold each mark once."""
MARKS_AT_ONCE = 50
"""Rows that are in memory at once: a mark may name 1,000 keys of 1,024 bytes."""
PART_ROWS = 100_000
"""Rows of one part, about."""
REFRESH_LOOK_SECONDS = 1
"""From one look for a refresh of a copy to the next."""
SILENT = "the marks cannot be read"


class LiveSide:
    """The objects that must exist, and those that may. Every method may raise ``OwnerSilent``."""

    def __init__(self, db: Database, registry: Registry, owner: Owner) -> None:
        self._db, self._registry, self._owner = db, registry, owner

    @contextmanager
    def snapshot(self, instance: str, *, divided: bool = True) -> Iterator[Moment]:
        """Open a snapshot in which the live side is read, for as long as the context lasts; ``NoLiveSide``.

        Args:
            instance: the instance.
            divided: into parts that several read side by side; to find them, the owner's records are read once more.
        """
        with silent_on_error(SILENT), self._db.snapshot() as c:
            name = self._db.share(c)
            self._db.limit_statements(c, STATEMENT_SECONDS)
            at = self._db.now(c)
            rows = PART_ROWS if divided else ALL_ROWS
            of_owner = self._owner.live_parts(instance, name, c, rows)
            parts = (*mark_parts(self._db, c, instance, rows), *of_owner.parts)
            yield Moment(name, min(at, of_owner.as_of or at), parts)

    def as_of(self, instance: str, heartbeat: Heartbeat) -> int | None:
        """Return as of when the live side is true, once it was refreshed: ms since 1970; None: at any moment.

        Raises:
            NoLiveSide: no source names the live objects, so a listing would be useless.
            OwnerSilent: it is a copy that is too old, or that does not say how old it is.
        """
        self._owner.refresh(instance, heartbeat)
        return self._owner.live_as_of(instance)

    def wait_for_refresh(self, instance: str, listed_at: int, heartbeat: Heartbeat) -> None:
        """Wait until a copy was refreshed after the listing ended, as long as it is not too old."""
        while (as_of := self.as_of(instance, heartbeat)) is not None and as_of < listed_at:
            heartbeat()
            time.sleep(REFRESH_LOOK_SECONDS)

    def read(self, instance: str, moment: str, part: Part) -> Iterator[LivePage]:
        """Yield the entries of one part, in pages."""
        if part.source not in SOURCES:
            yield from self._owner.read_live(instance, moment, part)
            return
        vaults = [spec.name for spec in self._registry.vaults(instance)]
        with silent_on_error(SILENT), self._db.snapshot(moment) as c:
            self._db.limit_statements(c, STATEMENT_SECONDS)
            yield from read_marks(self._db, c, instance, part, vaults)

    def pattern(self, instance: str) -> str:
        """Return the regular expression that every key of the owner's files matches; empty: unknown.

        Its group ``record``, if it has one, is the id of the record that should name the file.
        """
        return self._registry.instance(instance).key_pattern


def mark_parts(db: Database, c: Connection, instance: str, rows: int) -> list[Part]:
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


def read_marks(
    db: Database, c: Connection, instance: str, part: Part, vaults: Collection[str]
) -> Iterator[list[LiveEntry]]:
    """Yield the entries that the marks of a part name, in pages.

    Marks that a check made of orphans are left out: the next check must find such an orphan again, or it is none. A
    mark that names no vault of the instance may mean any of them.
    """
    mark = db.t.mark
    names_files = or_(mark.c.prefix.is_not(None), mark.c["keys"].is_not(None))
    columns = (mark.c.kind, mark.c.id, mark.c.vault, mark.c.prefix, mark.c["keys"])
    position = (mark.c.kind, mark.c.retention_starts_at, mark.c.id)
    # Of the waiting marks those in the range of the part, as a range of the index.
    lower = [beyond(position, _position(part.after))] if part.after else []
    upper = [~beyond(position, _position(part.until))] if part.until else []
    in_part = and_(is_in(mark, instance, part.source), *lower, *upper)
    query: Any = select(*columns).where(in_part, names_files, ~found_by_check(mark))
    for rows in c.execution_options(yield_per=MARKS_AT_ONCE).execute(query).partitions():
        page: list[LiveEntry] = []
        for kind, mark_id, vault, prefix, keys in rows:
            names = [name for name in (keys if prefix is None else [prefix]) if isinstance(name, str) and name]
            record, possible_vaults = f"{kind}/{mark_id}", [vault] if vault in vaults else vaults
            for name in names:
                page += [
                    LiveEntry(possible, name, prefix is not None, live=False, record=record)
                    for possible in possible_vaults
                ]
        yield page


def is_in(mark: Table, instance: str, source: str) -> ColumnElement[bool]:
    """Return the condition that a mark of the instance is in a source: that of the source's partial index."""
    conditions = {
        WAITING: waits(mark),
        CLAIMED_MARKS: mark.c.state == CLAIMED,
        QUARANTINED: and_(mark.c.state != CLAIMED, mark.c.quarantined_reason.is_not(None)),
    }
    return and_(mark.c.instance == instance, conditions[source])


def _position(bound: str) -> tuple[str, int, str]:
    kind, retention_starts_at, mark_id = bound.split("/", 2)
    return kind, int(retention_starts_at), mark_id
