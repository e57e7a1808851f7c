"""Explain what a purge of a topic would delete now, and which regions and replays block the rest. Deletes nothing."""

from sexton.database.engine import Database
from sexton.wal import policy
from sexton.wal.explanation import RegionLag, TopicExplanation, TopicStanding
from sexton.wal.model import Mode, Region, Topic
from sexton.wal.port import UnknownTopic
from sexton.wal.sql.rows import read_pins, read_topic
from sexton.wal.wal import WalService

MAX_LINES = 1_000


def standing(db: Database, wal: WalService, name: str) -> TopicStanding:
    """Return what is stored of a topic, without a look at its log. Raises ``UnknownTopic``."""
    with db.read() as c:
        now, topic = db.now(c), read_topic(db, c, name)
        pins = read_pins(db, c, [name])[name]
    regions = wal.store.regions(name)
    return TopicStanding(
        topic=topic,
        lines=tuple(_region_lag(topic, region, now) for region in regions[:MAX_LINES]),
        regions=len(regions),
        pins=tuple(pins),
        now=now,
    )


def explain(db: Database, wal: WalService, name: str) -> TopicExplanation:
    """Read the log, decide as a purge would, and return why; no floor is raised. Raises ``UnknownTopic``."""
    verdict = wal.purger.preview([name]).get(name)
    if verdict is None:
        raise UnknownTopic(name)
    seen = standing(db, wal, name)
    topic, frees = seen.topic, 0
    if verdict.keep_from is not None and topic.mode is Mode.DELETE:
        frees = max(0, max(verdict.keep_from, topic.floor or 0) - policy.SLACK - (topic.log_start or 0))
    return TopicExplanation(
        **dict(seen),
        verdict=verdict,
        frees=frees,
        bytes=int(frees * topic.entry_bytes),
        behind=0 if verdict.blocked else len(wal.floors.regions_to_flush([name])),
    )


def _region_lag(topic: Topic, region: Region, now: int) -> RegionLag:
    entries: int | None = None
    if region.keep_from is not None and topic.log_end is not None:
        entries = max(0, topic.log_end - region.keep_from)
    size = None if entries is None or not topic.entry_bytes else int(entries * topic.entry_bytes)
    return RegionLag(region=region, holds=policy.holds(region, now), entries=entries, bytes=size)
