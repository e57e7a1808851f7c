"""What workflows and their activities say to each other about purges: bounds and numbers, never lists of regions."""

from enum import StrEnum

from sexton.kernel.message import Message
from sexton.wal.model import Flushed, Purged


class Outcome(StrEnum):
    """How the purge of one topic ended."""

    PURGED = "PURGED"
    """Its floor rose, or what lies below it went."""
    NOTHING = "NOTHING"
    """There was nothing to purge."""
    BLOCKED = "BLOCKED"
    QUARANTINED = "QUARANTINED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class PurgeRequest(Message):
    """Purge one topic."""

    topic: str
    requested_by: str = ""


class Looked(Message):
    """What a purge of one topic would come to now. ``behind``: regions that should flush before."""

    behind: int = 0
    flushes: bool = True
    """Whether nodes are asked at all, by the settings."""


class PurgeReport(Message):
    """How the purge of one topic ended."""

    topic: str
    outcome: Outcome
    purged: Purged | None = None
    flushed: Flushed = Flushed()
    error: str = ""


class PurgeProgress(Message):
    """What a purge of one topic does now."""

    topic: str
    doing: str
    behind: int = 0
    flushed: Flushed = Flushed()
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0


class Page(Message):
    """A hundred topics that are due, by their first and last name. ``began``: ms since 1970."""

    first: str
    last: str
    began: int


class Pages(Message):
    """What a round has to do. ``more``: there is more than one run takes."""

    pages: tuple[Page, ...] = ()
    topics: int = 0
    more: bool = False
    at_once: int = 10


class PageReport(Message):
    """What came of topics, in numbers; who is meant is in the database (``sexton wal list``)."""

    topics: int = 0
    raised: int = 0
    freed: int = 0
    blocked: int = 0
    quarantined: int = 0
    losses: int = 0
    faults: int = 0
    asked: int = 0
    flushed: int = 0
    said: tuple[str, ...] = ()
    """Some of what was refused, in words."""

    def __add__(self, other: "PageReport") -> "PageReport":
        """Return both together."""
        numbers = {n: getattr(self, n) + getattr(other, n) for n in PageReport.model_fields if n != "said"}
        return PageReport(**numbers, said=(self.said + other.said)[:MOST_SAID])


class RoundRequest(Message):
    """Purge what is due; of a run that goes on for another: what that did, and up to which topic it came."""

    deployment: str
    after: str = ""
    done: PageReport = PageReport()


class RoundProgress(Message):
    """What a round does now."""

    doing: str
    pages: int = 0
    done: int = 0
    report: PageReport = PageReport()


MOST_SAID = 5


def outcome(purged: Purged) -> Outcome:
    """Return how the purge of one topic ended."""
    if purged.fault:
        return Outcome.FAILED
    if purged.verdict.quarantine:
        return Outcome.QUARANTINED
    if purged.verdict.blocked:
        return Outcome.BLOCKED
    return Outcome.PURGED if purged.verdict.rose or purged.freed else Outcome.NOTHING
