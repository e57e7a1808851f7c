"""Decide how far a topic may be purged, and which regions should flush first. Pure: ``now`` is an argument.

docs/adr/0024 compares these rules with the RFC.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sexton.wal.model import (
    Block,
    BlockReason,
    Facts,
    FlushCandidate,
    Missing,
    Pin,
    PurgeVerdict,
    Region,
    RegionState,
    Topic,
    WalSettings,
)

MAX_NAMED = 100
"""Holders and losses that a verdict names; its counts include the others."""
MAX_SILENT_NAMED = 5
"""Regions without a report that a sentence names."""
SLACK = 1
"""Records kept below the floor: a reader that begins at the floor finds one, and so verifies that none is missing."""


class TopicReaders(NamedTuple):
    """The regions of a topic, and its replays whose pins have not expired."""

    regions: Sequence[Region]
    pins: Sequence[Pin]


def verdict(
    topic: Topic, facts: Facts, readers: TopicReaders, now: int, settings: WalSettings, safe: int
) -> PurgeVerdict:
    """Return how far a topic may be purged, or why not.

    Args:
        topic: as it is stored.
        facts: what Kafka reports now.
        readers: all regions of the topic, and the pins that have not expired.
        now: ms since 1970.
        settings: of WAL purges.
        safe: the topic's end must not be below it; see ``LogStateBeforeRead``.
    """
    if topic.quarantined:
        return PurgeVerdict(quarantine=topic.quarantined)
    reason = reason_to_quarantine(topic, facts, safe)
    if reason:
        return PurgeVerdict(quarantine=reason)
    holding = [region for region in readers.regions if holds(region, now)]
    blocks = [*_topic_blocks(topic, facts, now, settings), *_region_blocks(topic, holding, now, settings)]
    missing = tuple(losses(holding, facts.start))
    if blocks:
        return PurgeVerdict(blocked=tuple(blocks), losses=missing[:MAX_NAMED], lost=len(missing))
    needs = {f"region {region.region}": region.keep_from for region in holding if region.keep_from is not None}
    needs |= {f"replay {pin.id} of region {pin.region}": pin.start for pin in readers.pins}
    lowest = min((facts.end, *needs.values()))
    holders = tuple(sorted(holder for holder, needed_from in needs.items() if needed_from == lowest))
    return PurgeVerdict(keep_from=lowest, holders=holders[:MAX_NAMED], losses=missing[:MAX_NAMED], lost=len(missing))


def reason_to_quarantine(topic: Topic, facts: Facts, safe: int) -> str:
    """Return why Kafka's answer cannot be about the topic that the database knows; empty if it can.

    ``safe`` was read before the log: what was reported since may be above the end in the log's answer.
    """
    if topic.kafka_id and facts.id != topic.kafka_id:
        return (
            f"the log's topic is another one now: {facts.id}, not {topic.kafka_id}; was it deleted and created again?"
        )
    if facts.end < safe:
        return f"its end is {facts.end}, but entry {safe - 1} was flushed or purged: it has lost its last entries"
    return ""


def holds(region: Region, now: int) -> bool:
    """Return whether a region still needs its entries in a topic."""
    if region.state is RegionState.GONE:
        return False
    if region.state is RegionState.DROPPED:
        return region.releases_at is None or now < region.releases_at
    if region.state is RegionState.MOVED:
        return region.until is None or region.keep_from is None or region.keep_from < region.until
    return True


def losses(regions: Iterable[Region], log_start: int) -> Iterator[Missing]:
    """Yield the entries that regions need and that lie below the topic's first entry: LOSS."""
    for region in regions:
        if region.keep_from is not None and region.keep_from < log_start:
            yield Missing(region=region.region, first=region.keep_from, last=log_start - 1)


def rises(floor: int | None, keep_from: int | None) -> bool:
    """Return whether a floor is raised to ``keep_from``."""
    return keep_from is not None and keep_from > (floor or 0)


def delete_before(floor: int | None, facts: Facts) -> int | None:
    """Return the offset below which Kafka deletes all records; None: there is nothing to delete.

    It is never above the persisted floor, and never -1, which means the topic's end to Kafka.
    """
    offset = (floor or 0) - SLACK
    return offset if max(0, facts.start) < offset <= facts.end else None


def regions_to_flush(
    topic: Topic, end: int, regions: Sequence[Region], now: int, settings: WalSettings
) -> list[FlushCandidate]:
    """Return the regions that should flush, those that need the oldest entries first: their flushes free most.

    What counts is the topic's entries from the first one a region needs, not the region's own (GreptimeDB RFC,
    "preparation").
    """
    candidates = []
    for region in sorted(regions, key=lambda r: (r.keep_from or 0, r.region)):
        if region.keep_from is None or not holds(region, now) or region.state is RegionState.DROPPED:
            continue
        entries = end - region.keep_from
        size = int(entries * topic.entry_bytes)
        if entries > settings.flush_entries or size > settings.flush_bytes:
            candidates.append(
                FlushCandidate(
                    instance=topic.instance,
                    topic=region.topic,
                    region=region.region,
                    node=region.leader,
                    keep_from=region.keep_from,
                    entries=entries,
                    bytes=size,
                )
            )
    return candidates


def _topic_blocks(topic: Topic, facts: Facts, now: int, settings: WalSettings) -> Iterator[Block]:
    """Yield why the topic itself must not be purged: not enabled, several partitions, no recent map."""
    if not topic.enabled:
        yield Block(why=BlockReason.NOT_ENABLED, said=f"it is not enabled; run: sexton wal enable {topic.name}")
    if facts.partitions != 1:
        reason = f"it has {facts.partitions} partitions; entry ids are unique only within one partition"
        yield Block(why=BlockReason.PARTITIONS, said=reason)
    if topic.mapped_at is None:
        if topic.generation is None:
            yield Block(why=BlockReason.NO_REGIONS, said="no regions are known: the owner has never sent its map")
        else:
            reason = "the owner's map is from before a reset or a restore, and must be sent again"
            yield Block(why=BlockReason.MAP_STALE, said=reason)
    elif now - topic.mapped_at > settings.map_stale_seconds * 1000:
        yield Block(why=BlockReason.MAP_STALE, said=f"the owner's map is {(now - topic.mapped_at) // 1000:,} s old")
    elif topic.mapped_at - now > settings.map_stale_seconds * 1000:
        reason = "the owner's map arrived while the clock was ahead, so its age is unknown: it must be sent again"
        yield Block(why=BlockReason.MAP_STALE, said=reason)


def _region_blocks(topic: Topic, holding: Sequence[Region], now: int, settings: WalSettings) -> Iterator[Block]:
    """Yield which regions have never reported; a topic without regions must have been empty for the grace period."""
    silent = sorted(region.region for region in holding if region.keep_from is None)
    if silent:
        others = len(silent) - MAX_SILENT_NAMED
        more = f" and {others} more" if others > 0 else ""
        names = ", ".join(silent[:MAX_SILENT_NAMED])
        yield Block(why=BlockReason.SILENT, said=f"no report, and no first entry in the map, of region {names}{more}")
    if holding or topic.mapped_at is None:
        return
    if topic.emptied_at is None:
        yield Block(why=BlockReason.NO_REGIONS, said="no regions are known: none was ever mapped")
        return
    empty_ms = now - topic.emptied_at
    if empty_ms <= settings.idle_grace_seconds * 1000:
        reason = (
            f"no regions are known, and the last one left {empty_ms // 1000:,} s ago: the topic is kept for "
            f"{settings.idle_grace_seconds:,} s"
        )
        yield Block(why=BlockReason.NO_REGIONS, said=reason)
