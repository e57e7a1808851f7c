"""Cuts that are granted to a storage node, their results, and the entries of its meta store. Versions are inclusive."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field

from sexton.kernel.message import Message, StrictMessage

ID = r"[A-Za-z0-9.-]{1,128}"
"""A uid of a tablet or an id of a rowset: without ``_``, so that a key is unambiguous, and without ``/``."""
MAX_VERSION = 2**62
MAX_SEGMENTS = 10_000
"""Segments of one rowset; an entry that names more is damaged."""
NOTHING = -1
"""The version up to which everything is deleted, if no version is known to be deleted."""
MAX_MESSAGES = 5


def number_as_text(value: object) -> object:
    """Accept numbers as ids: many databases number their objects."""
    return str(value) if type(value) is int else value


Id = Annotated[str, BeforeValidator(number_as_text), Field(pattern=rf"^{ID}$")]
Version = Annotated[int, Field(ge=0, le=MAX_VERSION)]


class GrantedCut(Message):
    """All binlogs of a tablet up to a version may be deleted."""

    uid: Id
    tablet: Id
    version: Version


class SweepOutcome(StrEnum):
    """The outcome of deleting one tablet's binlogs."""

    DONE = "done"
    UNKNOWN = "unknown"
    """The node has no tablet of that uid."""
    QUARANTINED = "quarantined"
    """An entry is unreadable or contradictory: it stays until an operator has reviewed it; the others were deleted."""
    FAILED = "failed"
    """A file could not be deleted; the next sweep tries again."""


class CutDone(StrictMessage):
    """A backend's acknowledgement: all binlogs up to ``version`` are deleted, whatever the outcome; -1: not known."""

    uid: str
    version: int
    outcome: str = SweepOutcome.DONE.value
    """A ``SweepOutcome``; any other text counts as a problem, too."""
    detail: str = ""


class GrantedCutPage(NamedTuple):
    """A page of cuts in the order of their uids. ``next``: the cursor of the next page; empty: this was the last."""

    cuts: Sequence[GrantedCut]
    next: str = ""
    refused: Sequence[str] = ()
    """Items that could not be read as a cut, in words; nothing is deleted for them."""


class SweepOrder(Message):
    """The tablets to sweep: uids after ``after``, up to and including ``until``. Empty: no bound."""

    instance: str = ""
    after: str = ""
    until: str = ""


class Swept(Message):
    """The result of a sweep, in numbers; the result of each tablet is acknowledged to the API."""

    tablets: int = 0
    files: int = 0
    keys: int = 0
    bytes: int = 0
    unknown: int = 0
    quarantined: int = 0
    failed: int = 0
    """Tablets whose files could not be deleted, and cuts that could not be read."""
    pages: int = 0
    said: tuple[str, ...] = ()
    """The first few problems, in words."""

    def __add__(self, other: "Swept") -> "Swept":
        """Return the sum of both results."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in Swept.model_fields if name != "said"}
        return Swept(**counts, said=(self.said + other.said)[:MAX_MESSAGES])


class BinlogMeta(Message):
    """The value of a ``binlog_meta_…`` key, in JSON."""

    version: Version
    tablet_id: Id
    num_segments: Annotated[int, Field(ge=0, le=MAX_SEGMENTS)]
    creation_time: int = 0
    """In seconds since 1970. Nothing needs it, but an entry whose time is damaged is damaged."""
    rowset_id_v2: Id | None = None
    """None: an old entry; its rowset is the last part of the key."""


class TabletEntry(Message):
    """The value of a ``tablet_{uid}`` key, in JSON. ``path``: below the data directory."""

    tablet: Id
    path: Annotated[str, Field(max_length=1024)]
