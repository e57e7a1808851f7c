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
    """Purge one topic. ``deployment``: whose workers do it; ``instance``: the topic's, shown to people."""

    topic: str
    deployment: str
    instance: str = ""
    requested_by: str = ""


class PurgePreview(Message):
    """What a purge of one topic would do now. ``behind``: regions that should flush first."""

    behind: int = 0
    flushes: bool = True
    """Whether the settings allow asking nodes to flush."""


class PurgeReport(Message):
    """How the purge of one topic ended."""

    topic: str
    outcome: PurgeOutcome
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


class TopicWork(Message):
    """A topic of which a purge would delete something, or whose regions should flush."""

    topic: str
    instance: str = ""


class TopicCounts(Message):
    """What a round found, in numbers; the database names the topics (``sexton wal list``)."""

    topics: int = 0
    """Topics that were due."""
    blocked: int = 0
    quarantined: int = 0
    losses: int = 0
    """Regions that need deleted entries."""
    faults: int = 0
    """Topics whose log refuses or does not answer."""
    started: int = 0
    """Purges that the round started: one for each topic with work."""
    running: int = 0
    """Topics with work whose purge was running already."""
    reasons: tuple[str, ...] = ()
    """The first few faults, as sentences."""

    def __add__(self, other: "TopicCounts") -> "TopicCounts":
        """Return the sum of two counts."""
        numbers = {n: getattr(self, n) + getattr(other, n) for n in TopicCounts.model_fields if n != "reasons"}
        return TopicCounts(**numbers, reasons=(self.reasons + other.reasons)[:MAX_REASONS])


class TopicReview(Message):
    """The due topics that have work, in order of their names. ``more``: further ones follow after the last of them."""

    work: tuple[TopicWork, ...] = ()
    more: bool = False
    after: str = ""
    """The last topic that was reviewed."""
    counts: TopicCounts = TopicCounts()


class PurgeRoundRequest(Message):
    """Start a purge for each topic that is due and has work.

    When a run continues another, ``done`` has its counts, and ``after`` is the last topic that it reviewed.
    """

    deployment: str
    instance: str = ""
    """Empty: a round serves the topics of every instance."""
    requested_by: str = ""
    after: str = ""
    done: TopicCounts = TopicCounts()


class PurgeRoundProgress(Message):
    """What a round is doing. ``remaining``: topics with work whose purge is not started yet."""

    doing: str
    remaining: int = 0
    counts: TopicCounts = TopicCounts()
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0


def purge_outcome(purged: Purged) -> PurgeOutcome:
    """Return how the purge of one topic ended."""
    if purged.fault:
        return PurgeOutcome.FAILED
    if purged.verdict.quarantine:
        return PurgeOutcome.QUARANTINED
    if purged.verdict.blocked:
        return PurgeOutcome.BLOCKED
    return PurgeOutcome.PURGED if purged.verdict.rose or purged.freed else PurgeOutcome.NOTHING
