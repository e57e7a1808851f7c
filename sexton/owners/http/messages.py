"""What an owner serves over HTTP. Its answers are checked here: unknown fields are ignored, wrong ones refused."""

from typing import Annotated, Literal

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.live import MOST_KEY

Text = Annotated[str, Field(max_length=1_024)]
Key = Annotated[str, Field(max_length=MOST_KEY)]
Position = Annotated[str, Field(max_length=1_024)]


class MarkName(Message):
    """The name of a mark."""

    kind: Text
    id: Text


class MarkFiles(MarkName):
    """A mark with the files that it names: ``keys``, or all under ``prefix``."""

    vault: Text | None = None
    keys: tuple[Key, ...] | None = None
    prefix: Key | None = None


class GarbageEntry(MarkFiles):
    """One entry of the list of garbage. ``undropped``: it was listed before, and is no garbage any longer."""

    undropped: bool = False
    bytes: Annotated[int, Field(ge=0)] = 0
    parent: MarkName | None = None


class GarbageAnswer(Message):
    """Entries in the order of the list. ``end``: the position behind the last one, never empty behind an entry."""

    entries: tuple[GarbageEntry, ...]
    end: Position


class FenceRequest(Message):
    """Marks that must not come back from now on. ``batch``: a number that only grows."""

    batch: int
    marks: tuple[MarkName, ...]


class FenceVerdict(MarkName):
    """The answer for one mark, with a reason for people."""

    answer: Literal["fenced", "in_use", "not_garbage", "unknown"]
    reason: Text = ""


class FenceAnswer(Message):
    """The answers; a mark without one is kept."""

    answers: tuple[FenceVerdict, ...]


class ForgetRequest(Message):
    """Marks whose files are deleted."""

    marks: tuple[MarkName, ...]


class LiveSearch(Message):
    """Marks whose files may be live."""

    marks: tuple[MarkFiles, ...]


class LiveMark(MarkName):
    """A mark that names something live; ``what``: the live record, in words."""

    what: Text = ""


class LiveSearchAnswer(Message):
    """The marks that name something live; ``searched``: how many marks were searched."""

    live: tuple[LiveMark, ...]
    searched: int


class LiveFile(Message):
    """A file of the owner; ``prefix``: every object whose key begins so. ``live``: it must exist.

    ``record``: ``KIND/ID`` of the record that names it.
    """

    vault: Text
    key: Key
    prefix: bool = False
    live: bool = True
    bytes: Annotated[int, Field(ge=0)] | None = None
    record: Text = ""


class LiveFiles(Message):
    """Files in the owner's order. ``end``: the position behind the last one; empty: there are no more."""

    files: tuple[LiveFile, ...]
    end: Position = ""


class RecordsRequest(Message):
    """Records whose files are read again: ``KIND/ID``."""

    records: tuple[Text, ...]


class LiveCount(Message):
    """How many objects are live now; None: unknown."""

    objects: int | None = None
