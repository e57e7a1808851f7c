"""An owner that keeps its records elsewhere, and lists its garbage: the base for owners outside of Sexton's database.

The list only grows at its end, so each entry is read once. What was read is marked in the transaction that stores how
far the list was read. The owner decides the race between undrop and deletion, because only it can: each mark is fenced
before it is claimed (docs/adr/0041).
"""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import select, update

from sexton import contract
from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.marks.model import Cutoff, Ref
from sexton.owners.port import Heartbeat, Owner, OwnerSilent, Verify, nothing_to_verify

log = logging.getLogger(__name__)
GARBAGE_AT_ONCE = 1_000
"""Entries of the list that are read and marked together."""


class Garbage(NamedTuple):
    """An object of the owner that became garbage. Its id was never used before: a second drop has another one."""

    kind: str
    mark: contract.NewMark

    @property
    def ref(self) -> Ref:
        """Return the name of the mark."""
        return Ref(self.kind, self.mark.id)


class Undropped(NamedTuple):
    """Garbage, listed before, that is none any longer: its mark is taken back, unless it is claimed already."""

    kind: str
    id: str


class GarbagePage(NamedTuple):
    """Entries of the list, in its order. ``end``: the position behind the last one; the next page begins there."""

    entries: Sequence[Garbage | Undropped]
    end: str


class ListedOwner(Owner):
    """An owner whose garbage Sexton reads from a list, and marks. Subclasses implement ``fence`` and ``live``, too."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @abstractmethod
    def garbage(self, instance: str, after: str, limit: int) -> GarbagePage:
        """Return at most ``limit`` entries of the list behind a position; ``after`` is empty at the beginning."""

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, Cutoff], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        """Mark what the list has had since it was last read."""
        t = self._db.t.instance
        with self._db.read() as c:
            after = str(c.execute(select(t.c.owner_cursor).where(t.c.id == instance)).scalar_one())
        while True:
            heartbeat()
            page = self.garbage(instance, after, GARBAGE_AT_ONCE)
            stands = page.end in ("", after)  # an empty position is the beginning
            if stands and not page.entries:
                return
            if stands or "\0" in page.end:
                raise OwnerSilent(f"the list of garbage of {instance} does not move on behind {after!r}")
            if not self._store(instance, after, page, verify, heartbeat) or not page.entries:
                return  # without entries, the next round reads on: a position may move at each question
            after = page.end

    def keeps_records(self, instance: str) -> bool:
        """Return True: the owner knows what it has fenced until it may forget it."""
        return True

    def _store(self, instance: str, after: str, page: GarbagePage, verify: Verify, heartbeat: Heartbeat) -> bool:
        """Mark a page, and store how far the list was read; return False if another reader was faster."""
        undropped = [Ref(*entry) for entry in page.entries if isinstance(entry, Undropped)]
        listed = [entry for entry in page.entries if isinstance(entry, Garbage) and entry.ref not in undropped]
        for ref in undropped:
            heartbeat()
            with self._db.write() as c:
                verify(c)
            # It has no mark, perhaps for its wrong name, or is claimed: fenced by its owner.
            with suppress(contract.Refused, BadInput), self._db.write() as c:
                check_text(*ref)
                contract.undrop(c, instance, ref.kind, [ref.id])
        try:
            return self._mark(instance, listed, verify, after, page.end)
        except BadInput:
            pass  # one of them: the others must not wait for it
        for garbage in listed:
            heartbeat()
            try:
                self._mark(instance, [garbage], verify)
            except BadInput as e:
                log.error("owner of %s lists %s/%s, which is not marked: %s", instance, *garbage.ref, e)
        return self._mark(instance, (), verify, after, page.end)

    def _mark(
        self, instance: str, listed: Sequence[Garbage], verify: Verify, after: str = "", end: str | None = None
    ) -> bool:
        """Mark entries of the list, and with ``end`` store how far it was read."""
        t = self._db.t.instance
        with self._db.write() as c:
            verify(c)
            if end is not None:
                is_next = (t.c.id == instance, t.c.owner_cursor == after)
                if c.execute(update(t).where(*is_next).values(owner_cursor=end)).rowcount != 1:
                    return False
            for kind in {garbage.kind for garbage in listed}:
                marks = {garbage.mark.id: garbage.mark for garbage in listed if garbage.kind == kind}
                check_text(kind, *marks, *(part for mark in marks.values() for part in mark.parent or ()))
                known: set[str] = set()  # marked, now or before: a list that was begun again shows ids a second time
                for seen in (self._db.t.mark, self._db.t.mark_history):
                    is_same = (seen.c.instance == instance, seen.c.kind == kind, in_list(seen.c.id, marks))
                    known.update(c.execute(select(seen.c.id).where(*is_same)).scalars())
                contract.mark(c, instance, kind, [mark for id_, mark in marks.items() if id_ not in known])
        return True
