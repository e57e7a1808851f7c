"""How far a topic may be purged, who should flush first, and where a region begins to read.

Pure: ``now`` is an argument.

Where the RFC is followed and where not: docs/adr/0024.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sexton.kernel.errors import BadInput
from sexton.wal.model import (
    MOST,
    Block,
    Candidate,
    Facts,
    KeepFromSource,
    LeaderReport,
    MapOrder,
    Missing,
    Pin,
    PurgeVerdict,
    Region,
    RegionMapping,
    RegionState,
    Stream,
    Topic,
    WalSettings,
    Why,
)

NAMED = 100
"""Holders and losses that a verdict names; it counts them all."""
WAITS_NOT: dict[str, Any] = {"waits": None, "waits_marks": None, "waits_flushed": None}
UNTOLD = WAITS_NOT | {"keep_from": None, "until": None}
"""What becomes of a region when nothing counts that was told of it. What its manifest knew once it must still know."""
SLACK = 1
"""Records below the floor that stay: what a reader that begins at the floor finds before it proves that it is there."""


def keep_from(streams: Iterable[Stream]) -> int | None:
    """Return the first entry that a region needs: the smallest of its streams; None where one has neither mark.

    The idle mark is the topic's last entry, read before it was verified that nothing is in memory or under way: what
    came after may be the region's (GreptimeDB RFC, "before purge").
    """
    each = [max((m for m in (s.flushed, s.idle) if m is not None), default=None) for s in streams]
    known = [last for last in each if last is not None]
    return min(known) + 1 if known and len(known) == len(each) else None


def knows(flushed: Iterable[int | None]) -> tuple[int, ...]:
    """Return how much a manifest knows, by the last flushed entry of each stream: one that was restored knows less."""
    return tuple(0 if last is None else last + 1 for last in flushed)


def believable(report: LeaderReport) -> bool:
    """Tell whether a report's numbers can be: somebody's 2⁶⁴ - 1 must not spoil what others say."""
    numbers = [report.epoch, *(m for s in report.streams for m in (s.flushed, s.idle) if m is not None)]
    return max(numbers) <= MOST // 32  # their sum, over up to 16 streams, can be stored too


def verdict(
    topic: Topic, facts: Facts, regions: Sequence[Region], pins: Sequence[Pin], now: int, terms: WalSettings, safe: int
) -> PurgeVerdict:
    """Return how far a topic may be purged, or why not.

    Args:
        topic: as it is stored.
        facts: what Kafka says now.
        regions: all of the topic.
        pins: those that live.
        now: ms since 1970.
        terms: the settings.
        safe: see ``Before``: it cannot be above the end.
    """
    if topic.quarantined:
        return PurgeVerdict(quarantine=topic.quarantined)
    if wrong := strange(topic, facts, safe):
        return PurgeVerdict(quarantine=wrong)
    holding = [r for r in regions if holds(r, now)]
    blocked = [*_blocked(topic, facts, now, terms), *_silent(topic, holding, now, terms)]
    gone = tuple(lost(holding, facts.start))
    losses = {"losses": gone[:NAMED], "lost": len(gone)}
    if blocked:
        return PurgeVerdict(blocked=tuple(blocked), **losses)
    needs = {f"region {r.region}": r.keep_from for r in holding if r.keep_from is not None}
    needs |= {f"replay {p.id} of region {p.region}": p.start for p in pins}
    lowest = min((facts.end, *needs.values()))
    holders = tuple(sorted(who for who, needed in needs.items() if needed == lowest))
    return PurgeVerdict(keep_from=lowest, holders=holders[:NAMED], **losses)


def strange(topic: Topic, facts: Facts, safe: int) -> str:
    """Return why this cannot be the topic that we know; empty where it can.

    ``safe`` is what was known before Kafka was asked: what others have learned since may be above the end that it told.
    """
    if topic.kafka_id and facts.id != topic.kafka_id:
        return f"the log's topic is another one now: {facts.id}, not {topic.kafka_id}; was it made anew?"
    if facts.end < safe:
        return f"its end is {facts.end}, and {safe - 1} was flushed or purged: it has lost its last entries"
    return ""


def _blocked(topic: Topic, facts: Facts, now: int, terms: WalSettings) -> Iterator[Block]:
    if not topic.enabled:
        yield Block(why=Why.NOT_ENABLED, said=f"it is not enabled; run: sexton wal enable {topic.name}")
    if facts.partitions != 1:
        said = f"it has {facts.partitions} partitions; an entry id means something in one alone"
        yield Block(why=Why.PARTITIONS, said=said)
    if topic.mapped_at is None:
        if topic.generation is None:
            yield Block(why=Why.NO_REGIONS, said="no regions are known: the owner has never sent its map")
        else:
            yield Block(
                why=Why.MAP_STALE, said="the owner's map is from before a reset or a restore; it must be sent again"
            )
    elif now - topic.mapped_at > terms.map_stale_seconds * 1000:
        yield Block(why=Why.MAP_STALE, said=f"the owner's map is {(now - topic.mapped_at) // 1000:,} s old")


def _silent(topic: Topic, holding: Sequence[Region], now: int, terms: WalSettings) -> Iterator[Block]:
    """Yield which regions nobody has heard of; where there is none at all the topic must have been empty for long."""
    if names := sorted(r.region for r in holding if r.keep_from is None):
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        yield Block(
            why=Why.SILENT, said=f"no report, and no first entry in the map, of region {', '.join(names[:5])}{more}"
        )
    if holding or topic.mapped_at is None:
        return
    if topic.emptied_at is None:
        yield Block(why=Why.NO_REGIONS, said="no regions are known: none was ever mapped")
    elif (empty := now - topic.emptied_at) <= terms.idle_grace_seconds * 1000:
        said = f"no regions are known, and the last one went {empty // 1000:,} s ago: it is kept for a while"
        yield Block(why=Why.NO_REGIONS, said=said)


def holds(region: Region, now: int) -> bool:
    """Tell whether a region still needs its entries in a topic."""
    if region.state is RegionState.GONE:
        return False
    if region.state is RegionState.DROPPED:
        return region.releases_at is None or now < region.releases_at
    if region.state is RegionState.MOVED:
        return region.until is None or region.keep_from is None or region.keep_from < region.until
    return True


def lost(regions: Iterable[Region], start: int) -> Iterable[Missing]:
    """Yield what regions need and is below the first entry that is there: LOSS."""
    for its in regions:
        if its.keep_from is not None and its.keep_from < start:
            yield Missing(region=its.region, first=its.keep_from, last=start - 1)


def rises(floor: int | None, to: int | None) -> bool:
    """Tell whether a floor is to be raised."""
    return to is not None and to > (floor or 0)


def delete_before(floor: int | None, facts: Facts) -> int | None:
    """Return the offset that Kafka is told: all before it goes. None: nothing is to go.

    Never above the persisted floor, and never -1, which for Kafka means the end.
    """
    offset = (floor or 0) - SLACK
    return offset if max(0, facts.start) < offset <= facts.end else None


def candidates(topic: Topic, end: int, regions: Sequence[Region], now: int, terms: WalSettings) -> list[Candidate]:
    """Return the regions that should flush, who frees most first: who needs the oldest entries.

    What counts is the topic's entries above what a region needs, not its own (GreptimeDB RFC, "preparation").
    """
    behind = []
    for its in sorted(regions, key=lambda r: (r.keep_from or 0, r.region)):
        if its.keep_from is None or not holds(its, now) or its.state is RegionState.DROPPED:
            continue
        entries = end - its.keep_from
        weight = int(entries * topic.entry_bytes)
        if entries > terms.flush_entries or weight > terms.flush_bytes:
            named = {"topic": its.topic, "region": its.region, "node": its.node, "keep_from": its.keep_from}
            behind.append(Candidate(**named, entries=entries, bytes=weight))
    return behind


def start(region: Region, flushed: Sequence[int | None], end: int | None = None) -> int | None:
    """Return where a region begins to read; None where nobody knows what it needs.

    What was reported counts only if the manifest knows as much, in each of its streams: one that was restored from a
    backup lacks what was flushed since, and begins where it ends itself (the RFC's ``last_purged_entry_id`` would hide
    that). After a reset the manifest says nothing: it may count by a topic that is no more.

    Args:
        region: as it is stored.
        flushed: of each stream the last entry that the manifest names.
        end: of the topic, as it was seen last; a first entry above it was wrong.
    """
    if region.source is KeepFromSource.RESET:
        return region.keep_from
    its = knows(flushed)
    mine = max(region.first if end is None or region.first <= end else 0, min(its))
    if region.keep_from is None:
        return mine if any(its) or region.waits is not None else None
    told = [t for t in (region.flushed, region.waits_flushed) if t]
    whole = all(len(t) == len(its) and all(a >= b for a, b in zip(its, t, strict=True)) for t in told)
    return max(mine, region.keep_from) if whole else mine


def missing(topic: Topic, region: str, at: int) -> Missing | None:
    """Return what a reader that begins there would not find, where that is something."""
    first = max(topic.floor or 0, topic.log_start or 0)
    return Missing(region=region, first=at, last=first - 1) if at < first else None


def remapped(topic: Topic, there: Mapping[str, Region], order: MapOrder, now: int) -> list[Region]:
    """Return the regions that are new, or not as they were, after the owner's map.

    The first map after a reset, or after the database was restored, is a beginning: of what was told before nothing
    counts, of regions that were gone neither.

    Raises:
        BadInput: a region begins below the floor.
    """
    anew = topic.generation is not None and not topic.map_digest
    gone = () if anew else (RegionState.GONE,)
    known = {name: its.model_copy(update=UNTOLD) if anew else its for name, its in there.items()}
    changed = {name: its for name, its in known.items() if anew}
    for its in order.regions:
        old = known.get(its.region)
        if old is None or old.state in gone:
            # An entry that was told for another topic of that name may be in this one as well.
            changed[its.region] = _began(topic, its.model_copy(update={"first": None}) if anew else its, old)
            continue
        new: dict[str, Any] = {"state": RegionState.MAPPED, "releases_at": None, "until": None}
        if its.epoch > old.epoch:
            new |= {"epoch": its.epoch, **WAITS_NOT}
        changed[its.region] = old.model_copy(update=new)
    for name in order.moved:
        # Nobody told of it before it moved: until its node reports, all that is there may be its own.
        old = known.get(name) or Region(topic=topic.name, region=name)
        if old.state not in (RegionState.MOVED, *gone):
            changed[name] = old.model_copy(update={"state": RegionState.MOVED, "releases_at": None, "until": None})
    for dropped in order.dropped:
        old = known.get(dropped.region) or Region(topic=topic.name, region=dropped.region)
        if old.state not in gone:
            until = now + dropped.undrop_seconds * 1000
            changed[dropped.region] = old.model_copy(
                update={"state": RegionState.DROPPED, "releases_at": until, "until": None}
            )
    return [new for name, new in changed.items() if new != there.get(name)]


def _began(topic: Topic, its: RegionMapping, old: Region | None) -> Region:
    """Return a region that is mapped anew; ``old``: as it was when it went."""
    if its.first is not None and its.first < (topic.floor or 0):
        raise BadInput(
            f"region {its.region} cannot begin at {its.first}: topic {topic.name} is purged below {topic.floor}; "
            "read its end again, before the first append"
        )
    # A first entry above the end that we know may be a newer end, or wrong: it counts when we see an end as high. Of
    # a topic that was never looked at whoever reads looks for himself.
    end = its.first or 0 if topic.log_end is None else topic.log_end
    first = None if its.first is None else min(its.first, end)
    counts = its.first is None or its.first <= (topic.log_end or 0)
    told: dict[str, Any] = {"keep_from": first} if counts else {"waits": its.first, "waits_marks": 0}
    if old is None:
        return Region(topic=topic.name, region=its.region, epoch=its.epoch, first=first or 0, **told)
    # What it had flushed when it went is remembered: it may come with a manifest that was restored.
    kept: dict[str, Any] = {name: getattr(old, name) for name in ("first", "flushed", "marks")}
    return Region(topic=topic.name, region=its.region, epoch=max(old.epoch, its.epoch), **kept, **told)
