"""Decide how far a topic may be purged, and which regions should flush first. Pure: ``now`` is an argument.

docs/adr/0024 compares these rules with the RFC. In the orders and reports of owners and nodes entry ids are inclusive.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from sexton.kernel.message import Message, StrictMessage
from sexton.kernel.printable import PRINTABLE
from sexton.wal.model import (
    DAY,
    MAX_TOPIC_REGIONS,
    MOST,
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
    """Return how far a topic may be purged, or why not. ``facts``: what Kafka reports now.

    ``readers``: all regions of the topic, and the pins that have not expired. ``safe``: the topic's end must not be
    below it; see ``LogStateBeforeRead``.
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
        if entries > settings.trigger_flush_entries or size > settings.trigger_flush_bytes:
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
    if empty_ms <= settings.topic_idle_grace_seconds * 1000:
        reason = (
            f"no regions are known, and the last one left {empty_ms // 1000:,} s ago: the topic is kept for "
            f"{settings.topic_idle_grace_seconds:,} s"
        )
        yield Block(why=BlockReason.NO_REGIONS, said=reason)


TOPIC = r"^[A-Za-z0-9._-]{1,249}$"
"""Kafka's rule for topic names."""
NODE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
MAX_STREAMS = 16
RegionName = Annotated[str, Field(min_length=1, max_length=256, pattern=PRINTABLE)]
NodeName = Annotated[str, Field(pattern=rf"^$|{NODE}")]
Entry = Annotated[int, Field(strict=True, ge=0, le=MOST)]
"""An entry's id; also an epoch, or a generation."""
Flushed = Annotated[int, Field(strict=True, ge=0, le=2**58)]
"""An entry's id; no log is longer."""


class RegionMove(StrictMessage):
    """A region that appends to another topic now; ``epoch`` and ``node`` as in ``RegionMapping``."""

    region: RegionName
    epoch: Entry = 0
    node: NodeName = ""


class RegionMapping(StrictMessage):
    """A region in an owner's map.

    ``first`` is the topic's end before the region's first append; None: the owner does not know it. It is used when
    the region is mapped for the first time. A region that returns after its drop became final has lost its old values.
    ``node`` leads the region: no other one reports or opens it; empty: the first node that does either in this epoch.
    """

    region: RegionName
    epoch: Entry = 0
    first: Entry | None = None
    node: NodeName = ""


class RegionDrop(StrictMessage):
    """A dropped region, and the seconds from now during which its drop can still be undone."""

    region: RegionName
    undrop_seconds: Annotated[int, Field(strict=True, ge=0, le=3_650 * DAY)] = 0


class RegionMap(StrictMessage):
    """All regions of a topic, as the owner knows them.

    ``moved`` lists regions that append to another topic now, whose last append to this topic was acknowledged, and that
    may still have entries in it. A region that the map does not name still retains its entries: the owner may have
    forgotten it.
    """

    generation: Entry
    regions: Annotated[tuple[RegionMapping, ...], Field(max_length=MAX_TOPIC_REGIONS)] = ()
    moved: Annotated[tuple[RegionMove, ...], Field(max_length=MAX_TOPIC_REGIONS)] = ()
    dropped: Annotated[tuple[RegionDrop, ...], Field(max_length=MAX_TOPIC_REGIONS)] = ()


class MapOrder(RegionMap):
    """The map of a topic.

    ``instance``: the sender's; a topic belongs to the instance that first maps it, or for which it is enabled.
    """

    instance: str = Field(min_length=1)
    topic: str


class Replay(StrictMessage):
    """A region that a node opens.

    ``flushed`` holds, for each stream, the last entry that the region's manifest names; None: the manifest names no
    file of that stream. ``node``: only for callers without a node's token, whose name counts otherwise.
    """

    region: RegionName
    epoch: Entry
    flushed: Annotated[tuple[Flushed | None, ...], Field(min_length=1, max_length=MAX_STREAMS)] = (None,)
    node: NodeName = ""


class OpenRegionOrder(Replay):
    """Open a region of a topic; ``node`` opens it."""

    topic: str
    node: str = Field(min_length=1)


class Stream(StrictMessage):
    """The last flushed entry of a stream, and its idle mark, both inclusive. A value that is no id is ignored."""

    flushed: int | None = Field(None, ge=0)
    idle: int | None = Field(None, ge=0)


class LeaderReport(StrictMessage):
    """The leader's report on a region, for one topic.

    A report with an impossible number is ignored instead of refused: the node's other reports still count.
    """

    topic: Annotated[str, Field(pattern=TOPIC)]
    region: RegionName
    epoch: int = Field(ge=0)
    streams: tuple[Stream, ...] = Field(min_length=1, max_length=MAX_STREAMS)
    leader: bool = True


class HeartbeatReceipt(Message):
    """How many reports of a node were taken, wait until the end of their topic is seen as high, or were ignored."""

    taken: int = 0
    waiting: int = 0
    ignored: int = 0
