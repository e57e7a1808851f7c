"""Define what purge workflows and their activities exchange: bounds and numbers, never lists of regions."""

from enum import StrEnum

from sexton.kernel.message import Message
from sexton.wal.model import Flushed, Purged

MAX_REASONS = 5
"""Reasons that a report of topics quotes; its numbers count all of them."""


class PurgeOutcome(StrEnum):
    """How the purge of one topic ended."""

    PURGED = "PURGED"
    """The floor rose, or the log deleted entries below it."""
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
    """What a purge of one topic would do now. ``behind``: regions that should flush first."""

    behind: int = 0
    flushes: bool = True
    """Whether the settings allow asking nodes to flush."""


class PurgeReport(Message):
    """How the purge of one topic ended."""

    topic: str
    purge_outcome: PurgeOutcome
    purged: Purged | None = None
    flushed: Flushed = Flushed()
    error: str = ""


class PurgeProgress(Message):
    """What a purge of one topic is doing."""

    topic: str
    doing: str
    behind: int = 0
    flushed: Flushed = Flushed()
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0


class TopicPage(Message):
    """A hundred topics that are due, given by the first and last name. ``began``: ms since 1970."""

    first: str
    last: str
    began: int


class TopicPages(Message):
    """The topics that a round purges. ``more``: further topics are due than one run takes."""

    pages: tuple[TopicPage, ...] = ()
    topics: int = 0
    more: bool = False
    at_once: int = 10


class TopicPageReport(Message):
    """The result of purging topics, in numbers; the database names the topics (``sexton wal list``)."""

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
    """The first few faults, as sentences."""

    def __add__(self, other: "TopicPageReport") -> "TopicPageReport":
        """Return the sum of two reports."""
        numbers = {n: getattr(self, n) + getattr(other, n) for n in TopicPageReport.model_fields if n != "said"}
        return TopicPageReport(**numbers, said=(self.said + other.said)[:MAX_REASONS])


class PurgeRoundRequest(Message):
    """Purge the topics that are due.

    When a run continues another, ``done`` is the earlier run's report and ``after`` the last topic that it purged.
    """

    deployment: str
    after: str = ""
    done: TopicPageReport = TopicPageReport()


class PurgeRoundProgress(Message):
    """What a round is doing."""

    doing: str
    pages: int = 0
    done: int = 0
    report: TopicPageReport = TopicPageReport()


def purge_outcome(purged: Purged) -> PurgeOutcome:
    """Return how the purge of one topic ended."""
    if purged.fault:
        return PurgeOutcome.FAILED
    if purged.verdict.quarantine:
        return PurgeOutcome.QUARANTINED
    if purged.verdict.blocked:
        return PurgeOutcome.BLOCKED
    return PurgeOutcome.PURGED if purged.verdict.rose or purged.freed else PurgeOutcome.NOTHING
