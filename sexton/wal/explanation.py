"""What a purge of a topic would delete now, and what blocks the rest. Values only."""

from sexton.kernel.message import Message
from sexton.wal.model import Pin, PurgeVerdict, Region, Topic


class RegionLag(Message):
    """How far a region lags, in entries of the topic and in estimated bytes. ``holds``: it still needs entries."""

    region: Region
    holds: bool
    entries: int | None
    bytes: int | None


class TopicExplanation(Message):
    """A topic, its verdict, its replays, and up to 1,000 of its regions, those that need the oldest entries first.

    ``frees`` and ``bytes``: what a purge would delete. ``behind``: how many regions it would ask to flush first.
    """

    topic: Topic
    verdict: PurgeVerdict
    lines: tuple[RegionLag, ...]
    regions: int
    pins: tuple[Pin, ...]
    frees: int
    bytes: int
    behind: int
    now: int
