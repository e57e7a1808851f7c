"""List what blocks purges of topics: reasons of the last purge, lagging regions, replays, and topics not enabled."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.insight.views import Blocker
from sexton.insight.wording import quantity
from sexton.wal.model import BlockReason

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.wal.model import FlushCandidate, Topic

MAX_TOPICS = 1_000
MAX_NAMED = 3
"""Topics, or regions, that one row names."""


def topic_blockers(service: "Deployment", instance: str | None) -> Iterator[Blocker]:
    """Yield what blocks the purges of an instance's topics, or of all, as of the last purge of each."""
    wal = service.stores.wal.store
    topics = wal.topics("", MAX_TOPICS, instance=instance, enabled=True)
    names = [topic.name for topic in topics]
    for topic in topics:
        silent = wal.silent_regions(topic.name) if BlockReason.SILENT in topic.blocked else ()
        common = {"instance": topic.instance, "what": f"topic {topic.name}"}
        see = f"sexton wal explain {topic.name}"
        if topic.quarantined:
            reset = f"{see}; once it is understood: sexton wal reset {topic.name} --reason TEXT"
            yield Blocker(held_by="quarantine", why=topic.quarantined, way_out=reset, **common)
        whys = {BlockReason.SILENT: f"region {_named(silent)}" if silent else "", BlockReason.FAULT: topic.fault}
        for reason, since in topic.blocked.items():
            yield Blocker(held_by=reason, since=since, why=whys.get(reason, ""), way_out=see, **common)
    by_name = {topic.name: topic for topic in topics}
    # One row for each topic with LOSS: its regions block it until they have flushed, or are reset.
    for name, regions in sorted(wal.lost(names).items()):
        yield Blocker(
            instance=by_name[name].instance,
            held_by="LOSS",
            what=f"topic {name}: {quantity(regions, 'region')}",
            why=f"entries that are needed are deleted; the topic begins at {by_name[name].log_start}",
            way_out=f"sexton wal explain {name} names them; then: docs/incidents.md, Entries of a topic are lost",
            count=regions,
        )
    yield from _lagging(by_name, service.stores.wal.floors.regions_to_flush(names))
    for pin in wal.pins(names):
        yield Blocker(
            instance=by_name[pin.topic].instance,
            held_by=f"replay of region {pin.region}",
            what=f"topic {pin.topic}: entries from {pin.start} on",
            since=pin.opened_at,
            until=pin.expires_at,
            by=pin.node,
            why="a node opens the region",
            way_out=f"it ends when the region is open; see: sexton wal explain {pin.topic}",
        )
    yield from _not_enabled(wal.topics("", MAX_TOPICS, instance=instance, enabled=False))


def _lagging(topics: "dict[str, Topic]", candidates: "Sequence[FlushCandidate]") -> Iterator[Blocker]:
    """Yield one row for each topic with regions that lag so far that a purge asks them to flush."""
    by_topic: dict[str, list[FlushCandidate]] = {}
    for candidate in candidates:
        by_topic.setdefault(candidate.topic, []).append(candidate)
    for name, regions in sorted(by_topic.items()):
        regions = sorted(regions, key=lambda region: (region.keep_from, region.region))
        first = regions[0]
        yield Blocker(
            instance=topics[name].instance,
            held_by=f"region {_named([region.region for region in regions])}",
            what=f"topic {name}: {quantity(first.entries, 'entry', 'entries')} from {first.keep_from} on",
            why=f"not flushed by node {first.node}" if first.node else "not flushed",
            way_out=f"sexton wal explain {name}; to have them flushed: sexton wal purge {name}",
            count=len(regions),
        )


def _not_enabled(topics: "Sequence[Topic]") -> Iterator[Blocker]:
    """Yield one row for all topics of an instance that no purge visits."""
    by_instance: dict[str, list[str]] = {}
    for topic in topics:
        by_instance.setdefault(topic.instance, []).append(topic.name)
    for instance, names in sorted(by_instance.items()):
        yield Blocker(
            instance=instance,
            held_by=BlockReason.NOT_ENABLED,
            what=f"topic {_named(names)}",
            why="a topic is purged only after it was enabled by name",
            way_out=f"sexton wal enable {names[0]}",
            count=len(names),
        )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
