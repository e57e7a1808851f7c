"""What must be true of every history, told from the owner's deeds and the independent reader, never from Sexton's word.

A witness looks at each named point and after each operation. It knows what was written, what somebody may still need,
who holds what, and what vanished; it says so the moment something goes that must not.
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
    """A promise was broken; the history above it says how."""


class Kept(NamedTuple):
    """A hold that was placed: on everything, on a mark and all below it, or on what begins with a prefix."""

    scope: str
    ref: Ref | None
    vault: str | None
    prefix: str | None
    until: int


class Witness:
    """Eyes on one example."""

    def __init__(self, books: DatabaseReader, roots: dict[str, Path]) -> None:
        self.books, self.roots = books, roots
        self.written: dict[Place, int] = {}
        self.gone: dict[Place, int] = {}
        self.unrecorded: set[Place] = set()
        self.due: dict[Ref, int] = {}
        self.claims: set[Ref] = set()
        self.history: dict[Ref, str] = {}
        self.holds: list[Kept] = []
        self.controls: set[tuple[str, str]] = set()
        self.vaults: set[str] = set()
        self.enabled = False
        self._shield: dict[Place, list[Kept]] = {}
        self._halted = False

    def marked(self, kind: str, id_: str, ttl_seconds: int = 0) -> None:
        """Note that something was marked now: before this instant plus its retention it must not be claimed."""
        self.due[kind, id_] = self.books.now() + (ttl_seconds + RETENTION[kind]) * 1000

    def active(self) -> list[Kept]:
        """Return the holds that count now."""
        now = self.books.now()
        return [h for h in self.holds if h.until > now]

    def round_begins(self) -> None:
        """Note what holds and stops protect from the round that begins now."""
        marks, history, holds = self.books.marks(), self.books.history(), self.active()
        too_late = [m for m in marks.values() if m.state == "CLAIMED" and not m.swept]
        self._halted = self.halted()
        self._shield = {}
        for place in self.written.keys() - self.gone.keys() if holds else ():
            if any(m.names(*place) for m in too_late):
                continue
            named = [m for m in (*marks.values(), *history.values()) if m.names(*place)]
            if by := [h for h in holds if _covers(h, named, [place], marks, history)]:
                self._shield[place] = by

    def halted(self) -> bool:
        """Return whether an operator said that nothing may go."""
        return any(kind != "vault_whitelist" for kind, _ in self.controls)

    def look(self, *, claims: bool = False) -> set[Place]:
        """Compare everything with everything; return what vanished since the last look.

        Args:
            claims: a claim was committed this moment, so new ones are judged; at any other time there are none.
        """
        marks, history = self.books.marks(), self.books.history()
        fresh = {ref for ref, m in marks.items() if m.state == "CLAIMED"} - self.claims
        if fresh and not claims:
            raise Violation(f"{fresh} were claimed, and nobody came by claim.committed")
        for ref in fresh:
            self._judge(marks[ref], marks, history)
            self.claims.add(ref)
        for ref, m in history.items():
            if ref in marks:
                raise Violation(f"{ref} is gone and marked at once")
            if m.state == "GONE" and ref not in self.claims:
                raise Violation(f"{ref} is gone and was never claimed")
            if self.history.setdefault(ref, m.state) != m.state:
                raise Violation(f"{ref} was {self.history[ref]} and is {m.state}")
        vanished = self._compare(marks, history)
        self.gone |= {place: self.written[place] for place in vanished}
        return vanished

    def _compare(self, marks: dict[Ref, Mark], history: dict[Ref, Mark]) -> set[Place]:
        here = {(vault, key): size for vault, root in self.roots.items() for key, size in objects(root).items()}
        for place, size in here.items():
            if self.written.get(place) != size or place in self.gone:
                raise Violation(f"{place} has {size} bytes; {self.written.get(place)} were written")
        vanished = self.written.keys() - self.gone.keys() - here.keys()
        if not vanished:
            return set()
        active, live = self.active(), self.books.live()
        for place in vanished:
            named = [m for m in (*marks.values(), *history.values()) if m.names(*place)]
            if place in live:
                raise Violation(f"{place} is lost: the owner references it")
            if not any(m.state in ("CLAIMED", "GONE") for m in named):
                raise Violation(f"{place} is lost: nobody has claimed it, {named}")
            if any(h in active for h in self._shield.get(place, ())):
                raise Violation(f"{place} was deleted while it was held")
            if self._halted:
                raise Violation(f"{place} was deleted by a round that began halted")
        return set(vanished)

    def _judge(self, m: Mark, marks: dict[Ref, Mark], history: dict[Ref, Mark]) -> None:
        """Was this claim lawful?"""
        now, files = self.books.now(), self.books.files(m.ref)
        if now < self.due[m.ref]:
            raise Violation(f"{m.ref} was claimed {self.due[m.ref] - now} ms before it was due")
        if not self.enabled or self.halted():
            raise Violation(f"{m.ref} was claimed: enabled {self.enabled}, controls {self.controls}")
        if m.aside or m.vault not in self.vaults:
            raise Violation(f"{m.ref} was claimed: set aside {m.aside}, vaults {self.vaults}")
        if self.books.busy_until().get(m.epoch or 0, 0) <= now:
            raise Violation(f"{m.ref} was claimed without a lease")
        if wrong := [f for f in files if not m.names(*f)]:
            raise Violation(f"{m.ref} was claimed with files that it does not name: {wrong}")
        if needed := self.books.live().intersection(files):
            raise Violation(f"{m.ref} was claimed with files that the owner references: {needed}")
        if by := [h for h in self.active() if _covers(h, [m], files, marks, history)]:
            raise Violation(f"{m.ref} was claimed while held by {by}")


def _covers(
    h: Kept, named: Iterable[Mark], files: Iterable[Place], marks: dict[Ref, Mark], history: dict[Ref, Mark]
) -> bool:
    """Return whether a hold keeps one of these marks, or one of these files."""
    if h.scope == "prefix":
        return any(vault == h.vault and key.startswith(h.prefix or "") for vault, key in files)
    return h.scope == "instance" or any(h.ref in _line(m, marks, history) for m in named)


def _line(m: Mark, marks: dict[Ref, Mark], history: dict[Ref, Mark]) -> list[Ref]:
    """Return a mark and its ancestors, as far as rows tell."""
    line, above = [m.ref], m.parent
    while above is not None and above not in line:
        line.append(above)
        parent = marks.get(above) or history.get(above)
        above = parent.parent if parent else None
    return line
