"""Read the live side of a check in one snapshot: the owner's live files, and the marks.

The parts are read in parallel, also on other machines.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sexton.check.model import Moment
from sexton.check.port import Heartbeat
from sexton.check.sources import marks
from sexton.database.engine import Database
from sexton.database.ranges import ALL_ROWS
from sexton.marks.live import LiveEntry, Part
from sexton.operators.registry.store import Registry
from sexton.owners.port import OwnerLiveSide
from sexton.owners.reading import limit_statements, silent_on_error

PART_ROWS = 100_000
"""Rows of one part, about."""
REFRESH_LOOK_SECONDS = 1
"""From one look for a refresh of a copy to the next."""
SILENT = "the marks cannot be read"


class LiveSide:
    """Implements ``check.port.LiveSource`` over one database."""

    def __init__(self, db: Database, registry: Registry, owner: OwnerLiveSide) -> None:
        self._db, self._registry, self._owner = db, registry, owner

    @contextmanager
    def snapshot(self, instance: str, *, divided: bool = True) -> Iterator[Moment]:
        with silent_on_error(SILENT), self._db.snapshot() as c:
            name = self._db.share(c)
            limit_statements(self._db, c)
            at = self._db.now(c)
            rows = PART_ROWS if divided else ALL_ROWS
            of_owner = self._owner.live_parts(instance, name, c, rows)
            parts = (*marks.parts(self._db, c, instance, rows), *of_owner.parts)
            yield Moment(name, min(at, of_owner.as_of or at), parts)

    def as_of(self, instance: str) -> int | None:
        return self._owner.live_as_of(instance)

    def wait_for_refresh(self, instance: str, listed_at: int, heartbeat: Heartbeat) -> None:
        while (as_of := self.as_of(instance)) is not None and as_of < listed_at:
            heartbeat()
            time.sleep(REFRESH_LOOK_SECONDS)

    def read(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        if part.source not in marks.SOURCES:
            yield from self._owner.read_live(instance, moment, part)
            return
        vaults = [spec.name for spec in self._registry.vaults(instance)]
        with silent_on_error(SILENT), self._db.snapshot(moment) as c:
            limit_statements(self._db, c)
            yield from marks.read(self._db, c, instance, part, vaults)

    def entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        return self._owner.live_entries_of(instance, records)

    def pattern(self, instance: str) -> str:
        return self._registry.instance(instance).key_pattern
