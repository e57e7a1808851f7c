"""What a purge of a topic would do now and because of whom no more, as people are told it. Nothing is deleted."""

from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.wal import policy
from sexton.wal.model import Mode, Pin, PurgeVerdict, Region, Topic
from sexton.wal.port import UnknownTopic
from sexton.wal.sql.rows import known, pins
from sexton.wal.wal import WalService

MOST_LINES = 1_000


class RegionLag(Message):
    """A region: how far it lags, in entries of the topic and in bytes on average. ``holds``: whether it counts."""

    region: Region
    holds: bool
    entries: int | None
    bytes: int | None


class TopicExplanation(Message):
    """A topic and everybody who has to do with it; of the regions those that need the oldest entries.

    ``frees``, ``bytes``: what a purge would let go. ``behind``: how many regions it would ask to flush before.
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


def explain(db: Database, wal: WalService, name: str) -> TopicExplanation:
    """Ask the log, decide as a purge would, and say why; no floor is raised. Raises ``UnknownTopic``."""
    verdict = wal.purger.look([name]).get(name)
    if verdict is None:
        raise UnknownTopic(name)
    with db.read() as c:
        now, topic = db.now(c), known(db, c, name)
        pinned = pins(db, c, [name])[name]
    every = wal.store.regions(name)
    frees = 0
    if verdict.keep_from is not None and topic.mode is Mode.DELETE:
        frees = max(0, max(verdict.keep_from, topic.floor or 0) - policy.SLACK - (topic.log_start or 0))
    return TopicExplanation(
        topic=topic,
        verdict=verdict,
        lines=tuple(_line(topic, its, now) for its in every[:MOST_LINES]),
        regions=len(every),
        pins=tuple(pinned),
        frees=frees,
        bytes=int(frees * topic.entry_bytes),
        behind=0 if verdict.blocked else len(wal.floors.behind([name])),
        now=now,
    )


def _line(topic: Topic, its: Region, now: int) -> RegionLag:
    known_ = its.keep_from is not None and topic.log_end is not None
    entries = max(0, (topic.log_end or 0) - (its.keep_from or 0)) if known_ else None
    size = None if entries is None or not topic.entry_bytes else int(entries * topic.entry_bytes)
    return RegionLag(region=its, holds=policy.holds(its, now), entries=entries, bytes=size)
