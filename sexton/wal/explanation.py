"""What a purge of a topic would delete now, and what blocks the rest. Values only."""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.wal.model import Pin, PurgeVerdict, Region, Topic


class RegionLag(Message):
    """How far a region lags, in entries of the topic and in estimated bytes. ``holds``: it still needs entries."""

    region: Region
    holds: bool
    entries: int | None
    bytes: int | None


class TopicStanding(Message):
    """A topic as it was last seen, its replays, and up to 1,000 of its regions, those with the oldest entries first."""

    topic: Topic
    lines: tuple[RegionLag, ...]
    regions: int
    pins: tuple[Pin, ...]
    now: int = Field(alias="now_at")


class TopicExplanation(TopicStanding):
    """A topic whose log was just read, with its verdict.

    ``frees`` and ``bytes``: what a purge would delete. ``behind``: how many regions it would ask to flush first.
    """

    verdict: PurgeVerdict
    frees: int
    bytes: int
    behind: int
