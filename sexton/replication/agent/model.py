"""What a storage node is told to remove, what it answers, and what it keeps. Versions are inclusive: up to and with."""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from sexton.kernel.message import Message

ID = r"[A-Za-z0-9.-]{1,128}"
"""A uid of a tablet or an id of a rowset: without ``_``, so that a key has one meaning, and without ``/``."""
MOST_VERSION = 2**62
MOST_SEGMENTS = 10_000
"""Of one rowset; an entry that names more is damaged."""
NOTHING = -1
"""The version up to which everything is gone where nothing is known to be."""
MOST_SAID = 5

Id = Annotated[str, BeforeValidator(lambda v: str(v) if type(v) is int else v), Field(pattern=rf"^{ID}$")]
"""Numbers count as their digits: some nodes number their tablets, others name them."""
Version = Annotated[int, Field(ge=0, le=MOST_VERSION)]


class GrantedCut(Message):
    """All binlogs of a tablet up to a version may go."""

    uid: Id
    tablet: Id
    version: Version


class SweepOutcome(StrEnum):
    """How the removal of one tablet's binlogs ended."""

    DONE = "done"
    UNKNOWN = "unknown"
    """The node has no tablet of that uid."""
    QUARANTINED = "quarantined"
    """Something cannot be read, or contradicts itself: it stays until a person has looked; its siblings went."""
    FAILED = "failed"
    """A file could not be removed; the next sweep tries again."""


class Removed(Message):
    """The answer to a cut. ``version``: everything up to it is gone, whatever the outcome; -1: nothing surely is."""

    uid: str
    version: int
    outcome: SweepOutcome
    detail: str = ""


class SweepOrder(Message):
    """Which tablets to sweep: those whose uids come after one, up to and with another. Empty: no bound."""

    instance: str = ""
    after: str = ""
    until: str = ""


class Swept(Message):
    """What a sweep came to, in numbers; each tablet's answer is with whoever grants cuts."""

    tablets: int = 0
    files: int = 0
    keys: int = 0
    bytes: int = 0
    unknown: int = 0
    quarantined: int = 0
    failed: int = 0
    """Tablets whose files could not be removed, and cuts that could not be read."""
    pages: int = 0
    said: tuple[str, ...] = ()
    """Some of what went wrong, in words."""

    def __add__(self, other: "Swept") -> "Swept":
        """Return both together."""
        numbers = {n: getattr(self, n) + getattr(other, n) for n in Swept.model_fields if n != "said"}
        return Swept(**numbers, said=(self.said + other.said)[:MOST_SAID])


class BinlogMeta(Message):
    """The value of a ``binlog_meta_…`` key, in JSON."""

    version: Version
    tablet_id: Id
    num_segments: Annotated[int, Field(ge=0, le=MOST_SEGMENTS)]
    creation_time: int = 0
    """In seconds since 1970; nothing here depends on it."""
    rowset_id_v2: Id | None = None
    """None: an old entry, the rowset is the last part of its key."""


class TabletEntry(Message):
    """The value of a ``tablet_{uid}`` key, in JSON. ``path``: below the data directory."""

    tablet: Id
    path: Annotated[str, Field(max_length=1024)]
