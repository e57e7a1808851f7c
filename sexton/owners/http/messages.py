"""What an owner serves over HTTP. Its answers are checked here: unknown and wrong fields are refused.

An unknown field may be a mistyped or a newer one that would keep an object longer.
"""

from typing import Annotated, Literal

from pydantic import Field

from sexton.contract import MAX_EXTRA_RETENTION_SECONDS
from sexton.kernel.message import StrictMessage
from sexton.marks.live import MOST_KEY

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
