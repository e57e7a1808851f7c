"""The owner ``http``: each question is a request to the system that keeps the records. Its answers are checked here.

An unknown field is refused: it may be a mistyped or a newer one that would keep an object longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from sexton.contract import MAX_EXTRA_RETENTION_SECONDS, NewMark
from sexton.kernel.message import StrictMessage
from sexton.marks.live import MOST_KEY, LiveEntry, Part
from sexton.marks.model import DueMark, Fenced, Ref
from sexton.owners.caller import OwnerCaller
from sexton.owners.listed import Garbage, GarbagePage, ListedOwner, Undropped
from sexton.owners.plugin import CallOptions, OwnerContext
from sexton.owners.port import FindRefs, Heartbeat, LiveParts, OwnerSilent

Text = Annotated[str, Field(max_length=1_024)]
Key = Annotated[str, Field(max_length=MOST_KEY)]
Position = Annotated[str, Field(max_length=1_024)]


class MarkName(StrictMessage):
    """The name of a mark."""

    kind: Text
    id: Text


class MarkFiles(MarkName):
    """A mark with the files that it names: ``keys``, or all under ``prefix``."""

    vault: Text | None = None
    keys: tuple[Key, ...] | None = None
    prefix: Key | None = None


class GarbageEntry(MarkFiles):
    """One entry of the list of garbage. ``undropped``: it was listed before, and is no garbage any longer.

    ``extra_retention_seconds``: so long it waits before the retention of its kind starts.
    """

    undropped: bool = False
    bytes: Annotated[int, Field(ge=0)] = 0
    parent: MarkName | None = None
    extra_retention_seconds: Annotated[int, Field(ge=0, le=MAX_EXTRA_RETENTION_SECONDS)] = 0


class GarbageAnswer(StrictMessage):
    """Entries in the order of the list. ``end``: the position behind the last one, never empty behind an entry."""

    entries: tuple[GarbageEntry, ...]
    end: Position


class FenceRequest(StrictMessage):
    """Marks that must not come back from now on, with their files. ``batch``: a number that only grows.

    A mark of kind ``orphan`` is a check's: no record named its object. From ``fenced`` on no commit may name it.
    """

    batch: int
    marks: tuple[MarkFiles, ...]


class FenceVerdict(MarkName):
    """The answer for one mark, with a reason for people."""

    answer: Literal["fenced", "in_use", "not_garbage", "unknown"]
    reason: Text = ""


class FenceAnswer(StrictMessage):
    """The answers; a mark without one is kept."""

    answers: tuple[FenceVerdict, ...]


class ForgetRequest(StrictMessage):
    """Marks whose files are deleted."""

    marks: tuple[MarkName, ...]


class LiveSearch(StrictMessage):
    """Marks whose files may be live."""

    marks: tuple[MarkFiles, ...]


class LiveMark(MarkName):
    """A mark that names something live; ``what``: the live record, in words."""

    what: Text = ""


class LiveSearchAnswer(StrictMessage):
    """The marks that name something live; ``searched``: how many marks were searched."""

    live: tuple[LiveMark, ...]
    searched: int


class LiveFile(StrictMessage):
    """A file of the owner; ``prefix``: every object whose key begins so. ``live``: it must exist.

    ``record``: ``KIND/ID`` of the record that names it.
    """

    vault: Text
    key: Key
    prefix: bool = False
    live: bool = True
    bytes: Annotated[int, Field(ge=0)] | None = None
    record: Text = ""


class LiveFiles(StrictMessage):
    """Files in the owner's order. ``end``: the position behind the last one; empty: there are no more."""

    files: tuple[LiveFile, ...]
    end: Position = ""


class RecordsRequest(StrictMessage):
    """Records whose files are read again: ``KIND/ID``."""

    records: tuple[Text, ...]


class LiveCount(StrictMessage):
    """How many objects are live now; None: unknown."""

    objects: int | None = None


MARKS_AT_ONCE = 500
"""Marks of one request; each may name 1,000 keys."""
FILES_AT_ONCE = 5_000
"""Live files, or ids, of one page."""


class HttpOwner(ListedOwner):
    """The owner of all instances that name a URL."""

    def __init__(self, context: OwnerContext) -> None:
        super().__init__(context.db)
        self._registry, self._trust = context.registry, context.trust

    def garbage(self, instance: str, after: str, limit: int) -> GarbagePage:
        """Return a page of the owner's list."""
        page = self._caller(instance).get("garbage", GarbageAnswer, after=after, limit=limit)
        entries: list[Garbage | Undropped] = []
        for entry in page.entries:
            if entry.undropped:
                entries.append(Undropped(entry.kind, entry.id))
                continue
            mark = NewMark(
                id=entry.id,
                vault=entry.vault,
                keys=entry.keys,
                prefix=entry.prefix,
                bytes=entry.bytes,
                parent=None if entry.parent is None else (entry.parent.kind, entry.parent.id),
                extra_retention_seconds=entry.extra_retention_seconds,
            )
            entries.append(Garbage(entry.kind, mark))
        return GarbagePage(entries, page.end)

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        """Return the marks that name something live, as the owner says."""
        live_marks: dict[Ref, str] = {}
        for page in _pages(marks, MARKS_AT_ONCE):
            heartbeat()
            names = {mark.ref for mark in page}
            request = LiveSearch(marks=tuple(_files(mark) for mark in page))
            answer = self._caller(instance).post("live/search", request, LiveSearchAnswer)
            if answer.searched != len(page):
                raise OwnerSilent(f"the owner of {instance} searched {answer.searched} of {len(page)} marks")
            live_marks |= {ref: live.what for live in answer.live if (ref := Ref(live.kind, live.id)) in names}
        return live_marks

    def live_objects(self, instance: str) -> int | None:
        """Return how many objects are live, as the owner says."""
        return self._caller(instance).get("live/count", LiveCount).objects

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Have the owner keep these marks from coming back."""
        answers: dict[Ref, tuple[Fenced, str]] = {}
        for page in _pages(marks, MARKS_AT_ONCE):
            heartbeat()
            request = FenceRequest(batch=batch, marks=tuple(_files(mark) for mark in page))
            answer = self._caller(instance).post("fence", request, FenceAnswer)
            given = {Ref(a.kind, a.id): (Fenced(a.answer), a.reason) for a in answer.answers}
            answers |= {mark.ref: given[mark.ref] for mark in page if mark.ref in given}
        return answers

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        """Tell the owner that these files are deleted."""
        with self._db.write() as c:
            for page in _pages(list(find_refs(c)), MARKS_AT_ONCE):
                names = tuple(MarkName(kind=ref.kind, id=ref.id) for ref in page)
                self._caller(instance).tell("forget", ForgetRequest(marks=names))

    def live_as_of(self, instance: str) -> None:
        """Return None: the files are those of the moment in which they are read; ``OwnerSilent`` if it is away."""
        self._caller(instance).get("live/count", LiveCount)

    def live_parts(self, instance: str, moment: str, connection: Any, rows: int) -> LiveParts:
        """Return one part: only the owner knows how to divide its files."""
        return LiveParts([Part("owner")])

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the owner's files, page by page."""
        caller, after = self._caller(instance), ""
        while True:
            page = caller.get("live", LiveFiles, after=after, limit=FILES_AT_ONCE)
            yield [_live_entry(file) for file in page.files]
            if not page.end:
                return
            if page.end == after:
                raise OwnerSilent(f"the live files of {instance} do not move on behind {after!r}")
            after = page.end

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the files of these records now."""
        entries: list[LiveEntry] = []
        for page in _pages(sorted(set(records)), MARKS_AT_ONCE):
            request = RecordsRequest(records=tuple(page))
            answer = self._caller(instance).post("live/records", request, LiveFiles)
            entries += [_live_entry(file) for file in answer.files]
        return entries

    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[str]:
        """Yield the ids that the owner lists as a front end lists its own."""
        caller = self._caller(instance)
        ids: Sequence[str] = [after]
        while ids and (not until or ids[-1] < until):
            ids = caller.inventory(kind, ids[-1], FILES_AT_ONCE)
            yield from (id_ for id_ in ids if not until or id_ <= until)

    def _caller(self, instance: str) -> OwnerCaller:
        options = CallOptions.model_validate(self._registry.instance(instance).owner_options)
        return OwnerCaller(options, self._trust)


def _pages(things: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def _files(mark: DueMark) -> MarkFiles:
    return MarkFiles(kind=mark.kind, id=mark.id, vault=mark.vault, keys=mark.keys, prefix=mark.prefix)


def _live_entry(file: LiveFile) -> LiveEntry:
    return LiveEntry(file.vault, file.key, file.prefix, file.live, file.bytes, file.record)
