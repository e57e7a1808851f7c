"""What workflows and their activities say to each other about purges: bounds and numbers, never lists of regions."""

from enum import StrEnum

from sexton.kernel.message import Message
from sexton.wal.model import Flushed, Purged


class PurgeOutcome(StrEnum):
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


class PurgePreview(Message):
    """What a purge of one topic would come to now. ``behind``: regions that should flush before."""

    behind: int = 0
    flushes: bool = True
    """Whether nodes are asked at all, by the settings."""


class PurgeReport(Message):
    """How the purge of one topic ended."""

    topic: str
    outcome: PurgeOutcome
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


class TopicPage(Message):
    """A hundred topics that are due, by their first and last name. ``began``: ms since 1970."""

    first: str
    last: str
    began: int


class TopicPages(Message):
    """What a round has to do. ``more``: there is more than one run takes."""

    pages: tuple[TopicPage, ...] = ()
    topics: int = 0
    more: bool = False
    at_once: int = 10


class TopicPageReport(Message):
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

    def __add__(self, other: "TopicPageReport") -> "TopicPageReport":
        """Return both together."""
        numbers = {n: getattr(self, n) + getattr(other, n) for n in TopicPageReport.model_fields if n != "said"}
        return TopicPageReport(**numbers, said=(self.said + other.said)[:MOST_SAID])


class PurgeRoundRequest(Message):
    """Purge what is due; of a run that goes on for another: what that did, and up to which topic it came."""

    deployment: str
    after: str = ""
    done: TopicPageReport = TopicPageReport()


class PurgeRoundProgress(Message):
    """What a round does now."""

    doing: str
    pages: int = 0
    done: int = 0
    report: TopicPageReport = TopicPageReport()


MOST_SAID = 5


def outcome(purged: Purged) -> PurgeOutcome:
    """Return how the purge of one topic ended."""
    if purged.fault:
        return PurgeOutcome.FAILED
    if purged.verdict.quarantine:
        return PurgeOutcome.QUARANTINED
    if purged.verdict.blocked:
        return PurgeOutcome.BLOCKED
    return PurgeOutcome.PURGED if purged.verdict.rose or purged.freed else PurgeOutcome.NOTHING
