"""What must be true of every history, judged by the owner's operations and an independent reader, never by Sexton.

A witness checks at each crash point and after each operation. It knows the written files, the needed ones, the holds
and the files that vanished, and raises ``Violation`` as soon as a needed file was deleted.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.reader import DatabaseReader, Mark, objects
from tests.support.rig import RETENTION

Ref = tuple[str, str]
Place = tuple[str, str]
"""(vault, key)."""


class Violation(AssertionError):
    """A promise was broken; the history in the failure shows how."""


class PlacedHold(NamedTuple):
    """A placed hold: on everything, on a mark with its descendants, or on keys with a prefix."""

    scope: str
    ref: Ref | None
    vault: str | None
    prefix: str | None
    until: int


class Witness:
    """The judge of one history."""

    def __init__(self, tables: DatabaseReader, roots: dict[str, Path]) -> None:
        self.tables, self.roots = tables, roots
        self.written: dict[Place, int] = {}
        self.gone: dict[Place, int] = {}
        self.unrecorded: set[Place] = set()
        self.due: dict[Ref, int] = {}
        self.claims: set[Ref] = set()
        self.history: dict[Ref, str] = {}
        self.holds: list[PlacedHold] = []
        self.controls: set[tuple[str, str]] = set()
        self.vaults: set[str] = set()
        self.enabled = False
        self._shield: dict[Place, list[PlacedHold]] = {}
        self._halted = False

    def marked(self, kind: str, id_: str, ttl_seconds: int = 0) -> None:
        """Record that a mark was made now: it must not be claimed before its retention has passed."""
        self.due[kind, id_] = self.tables.now() + (ttl_seconds + RETENTION[kind]) * 1000

    def active(self) -> list[PlacedHold]:
        """Return the active holds."""
        now = self.tables.now()
        return [h for h in self.holds if h.until > now]

    def round_begins(self) -> None:
        """Record which files the present holds and stops protect from the round that begins now."""
        marks, history, holds = self.tables.marks(), self.tables.history(), self.active()
        too_late = [m for m in marks.values() if m.state == "CLAIMED" and not m.in_second_pass]
        self._halted = self.halted()
        self._shield = {}
        for place in self.written.keys() - self.gone.keys() if holds else ():
            if any(m.names(*place) for m in too_late):
                continue
            naming_marks = [m for m in (*marks.values(), *history.values()) if m.names(*place)]
            if holds_of_it := [h for h in holds if _covers(h, naming_marks, [place], marks, history)]:
                self._shield[place] = holds_of_it

    def halted(self) -> bool:
        """Return whether a control of an operator forbids every deletion."""
        return any(kind != "vault_whitelist" for kind, _ in self.controls)

    def check(self, *, claims: bool = False) -> set[Place]:
        """Compare everything with everything; return what vanished since the last look.

        Args:
            claims: a claim was committed this moment, so new ones are judged; at any other time there are none.
        """
        marks, history = self.tables.marks(), self.tables.history()
        fresh = {ref for ref, m in marks.items() if m.state == "CLAIMED"} - self.claims
        if fresh and not claims:
            raise Violation(f"{fresh} were claimed, outside of claim.committed")
        for ref in fresh:
            self._judge(marks[ref], marks, history)
            self.claims.add(ref)
        for ref, m in history.items():
            if ref in marks:
                raise Violation(f"{ref} is deleted and marked at once")
            if m.state == "GONE" and ref not in self.claims:
                raise Violation(f"{ref} is deleted and was never claimed")
            if self.history.setdefault(ref, m.state) != m.state:
                raise Violation(f"{ref} was {self.history[ref]} and is {m.state}")
        vanished = self._compare(marks, history)
        self.gone |= {place: self.written[place] for place in vanished}
        return vanished

    def _compare(self, marks: dict[Ref, Mark], history: dict[Ref, Mark]) -> set[Place]:
        present = {(vault, key): size for vault, root in self.roots.items() for key, size in objects(root).items()}
        for place, size in present.items():
            if self.written.get(place) != size or place in self.gone:
                raise Violation(f"{place} has {size} bytes; {self.written.get(place)} were written")
        vanished = self.written.keys() - self.gone.keys() - present.keys()
        if not vanished:
            return set()
        active, live = self.active(), self.tables.live()
        for place in vanished:
            naming_marks = [m for m in (*marks.values(), *history.values()) if m.names(*place)]
            if place in live:
                raise Violation(f"{place} is lost: the owner references it")
            if not any(m.state in ("CLAIMED", "GONE") for m in naming_marks):
                raise Violation(f"{place} is lost without a claim, {naming_marks}")
            if any(h in active for h in self._shield.get(place, ())):
                raise Violation(f"{place} was deleted while it was held")
            if self._halted:
                raise Violation(f"{place} was deleted by a round that began halted")
        return set(vanished)

    def _judge(self, m: Mark, marks: dict[Ref, Mark], history: dict[Ref, Mark]) -> None:
        """Raise ``Violation`` if this claim was not allowed."""
        now, files = self.tables.now(), self.tables.files(m.ref)
        if now < self.due[m.ref]:
            raise Violation(f"{m.ref} was claimed {self.due[m.ref] - now} ms before it was due")
        if not self.enabled or self.halted():
            raise Violation(f"{m.ref} was claimed: enabled {self.enabled}, controls {self.controls}")
        if m.aside or m.vault not in self.vaults:
            raise Violation(f"{m.ref} was claimed: set aside {m.aside}, vaults {self.vaults}")
        if self.tables.busy_until().get(m.epoch or 0, 0) <= now:
            raise Violation(f"{m.ref} was claimed without a lease")
        if wrong := [f for f in files if not m.names(*f)]:
            raise Violation(f"{m.ref} was claimed with files that it does not name: {wrong}")
        if loads := [p.id for p in marks.values() if _may_write_below(p, m)]:
            raise Violation(f"{m.ref} was claimed while loads may write below its prefix: {loads}")
        if needed := self.tables.live().intersection(files):
            raise Violation(f"{m.ref} was claimed with files that the owner references: {needed}")
        if holds_of_it := [h for h in self.active() if _covers(h, [m], files, marks, history)]:
            raise Violation(f"{m.ref} was claimed while held by {holds_of_it}")


def _may_write_below(load: Mark, m: Mark) -> bool:
    """Return whether a mark is of a load that may still commit files below the prefix of another one."""
    if load.kind != "prepared" or m.kind == "prepared" or load.state == "CLAIMED" or m.prefix is None:
        return False
    return load.vault == m.vault and (load.prefix or "").startswith(m.prefix)


def _covers(
    h: PlacedHold, named: Iterable[Mark], files: Iterable[Place], marks: dict[Ref, Mark], history: dict[Ref, Mark]
) -> bool:
    """Return whether a hold covers one of these marks or files."""
    if h.scope == "prefix":
        return any(vault == h.vault and key.startswith(h.prefix or "") for vault, key in files)
    return h.scope == "instance" or any(h.ref in _line(m, marks, history) for m in named)


def _line(m: Mark, marks: dict[Ref, Mark], history: dict[Ref, Mark]) -> list[Ref]:
    """Return a mark and its ancestors, as far as there are rows of them."""
    line, above = [m.ref], m.parent
    while above is not None and above not in line:
        line.append(above)
        parent = marks.get(above) or history.get(above)
        above = parent.parent if parent else None
    return line
