"""A small owner that keeps its records in this process: a list of garbage, and what it has fenced."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sexton.contract import NewMark
from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import DueMark, Fenced, Ref
from sexton.marks.sql.orphans import ORPHAN
from sexton.owners.listed import Garbage, GarbagePage, ListedOwner, Undropped
from sexton.owners.port import FindRefs, Heartbeat, LiveParts, OwnerSilent

VAULT = "disk"


class MemoryOwner(ListedOwner):
    """Its drops name one key each. ``silent``: names of the methods that do not answer."""

    def __init__(self, db: Any) -> None:
        super().__init__(db)
        self.list: list[Garbage | Undropped] = []
        self.dropped: dict[str, str] = {}
        self.fenced: set[str] = set()
        self.live_keys: set[str] = set()
        self.silent: Collection[str] = ()

    def drop(self, id_: str, key: str) -> None:
        """Drop one object."""
        self.dropped[id_] = key
        self.list.append(Garbage("dropped", NewMark(id=id_, vault=VAULT, keys=(key,))))

    def undrop(self, id_: str, *, listed: bool = True) -> None:
        """Bring an object back, unless it is fenced; ``listed``: the list says so."""
        if id_ in self.fenced:
            raise ValueError(f"{id_} is fenced")
        self.live_keys.add(self.dropped.pop(id_))
        if listed:
            self.list.append(Undropped("dropped", id_))

    def garbage(self, instance: str, after: str, limit: int) -> GarbagePage:
        self._answer("garbage")
        start = int(after or 0)
        page = self.list[start : start + limit]
        return GarbagePage(page, str(start + len(page)))

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        self._answer("live")
        return {m.ref: "" for m in marks if self.live_keys.intersection(m.keys or ())}

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        self._answer("fence")
        answers = {}
        for mark in marks:
            if mark.kind == ORPHAN and self.live_keys.intersection(mark.keys or ()):
                answers[mark.ref] = (Fenced.IN_USE, "a record names it")
                continue
            if mark.kind == ORPHAN or mark.id in self.dropped:
                self.fenced.add(mark.id)
            answers[mark.ref] = (Fenced.FENCED if mark.id in self.fenced else Fenced.NOT_GARBAGE, "")
        return answers

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        self._answer("forget")
        with self._db.write() as c:
            for ref in find_refs(c):
                self.fenced.discard(ref.id)
                self.dropped.pop(ref.id, None)

    def live_as_of(self, instance: str) -> None:
        self._answer("live_as_of")

    def live_parts(self, instance: str, moment: str, connection: Any, rows: int) -> LiveParts:
        return LiveParts([Part("records")])

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        self._answer("read_live")
        yield [LiveEntry(VAULT, key, prefix=False, live=True, record=f"object/{key}") for key in self.live_keys]

    def _answer(self, method: str) -> None:
        if method in self.silent:
            raise OwnerSilent(f"{method} does not answer")
