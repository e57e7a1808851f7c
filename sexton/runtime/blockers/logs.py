"""List what blocks deletions of logs: purges of topics, and the binlogs of an instance.

Of topics: reasons of the last purge, lagging regions, replays, and topics not enabled. Of binlogs: the clock,
approvals, consumers, and replicas (by backend).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sexton.insight.wording import quantity
from sexton.marks.kept import Blocker, Severity
from sexton.replication.binlog.sql.rows import find_last_run, logs_with_blocker
from sexton.replication.replicas.sql import figures
from sexton.wal.model import BlockReason

if TYPE_CHECKING:
    from sexton.replication.binlog.model import Consumer, Log
    from sexton.replication.replicas.model import RetainingReplica
    from sexton.runtime.deployment import Deployment
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
            of = {"held_by": "quarantine", "why": topic.quarantined, "way_out": reset}
            yield Blocker(severity=Severity.QUARANTINED, **of, **common)
        whys = {BlockReason.SILENT: f"region {_named(silent)}" if silent else "", BlockReason.FAULT: topic.fault}
        fault: dict[BlockReason, int | None] = {BlockReason.FAULT: None} if topic.fault else {}
        for reason, since in (fault | topic.blocked).items():
            severity = Severity.FAULT if reason is BlockReason.FAULT else Severity.OTHER
            why = whys.get(reason, "")
            yield Blocker(severity=severity, held_by=reason, since=since, why=why, way_out=see, **common)
    by_name = {topic.name: topic for topic in topics}
    # One row for each topic with LOSS: its regions block it until they have flushed, or are reset.
    for name, regions in sorted((wal.lost(names) if names else {}).items()):
        yield Blocker(
            severity=Severity.LOST,
            instance=by_name[name].instance,
            held_by="LOSS",
            what=f"topic {name}: {quantity(regions, 'region')}",
            why=f"entries that are needed are deleted; the topic begins at {by_name[name].log_start}",
            way_out=f"sexton wal explain {name} names them; then: docs/incidents.md, Entries of a topic are lost",
            count=regions,
        )
    yield from _lagging(by_name, service.stores.wal.floors.regions_to_flush(names) if names else ())
    for pin in wal.pins(names) if names else ():
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
    never_purged: dict[str, list[str]] = {}
    for topic in wal.topics("", MAX_TOPICS, instance=instance, enabled=False):
        never_purged.setdefault(topic.instance, []).append(topic.name)
    for of_instance, not_enabled in sorted(never_purged.items()):
        yield Blocker(
            instance=of_instance,
            held_by=BlockReason.NOT_ENABLED,
            what=f"topic {_named(not_enabled)}",
            why="a topic is purged only after it was enabled by name",
            way_out=f"sexton wal enable {not_enabled[0]}",
            count=len(not_enabled),
        )


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


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


SILENT_MS = 600_000
"""A backend or follower that was seen within this time works; it is only behind."""
NO_REPLICA_DECIDES = "sexton replica list --all, then repair a replica, place another, or drop the table"


def binlog_blockers(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield what blocks cuts and deletions, as of the last run; never a row per tablet."""
    with service.db.read() as c:
        last_run, logs = find_last_run(service.db, c, instance), logs_with_blocker(service.db, c, instance)
        retaining = figures.retaining_by_backend(service.db, c, instance)
        standings, now = figures.backend_standings(service.db, c, instance), service.db.now(c)
        head, _ = service.stores.binlogs.journal.bounds(c, instance)
    if not (last_run.refused or logs or retaining or standings or head):
        return
    consumers = service.stores.binlogs.consumers.all(instance) if logs else ()
    if last_run.refused:
        yield Blocker(
            severity=Severity.FAULT,
            instance=instance,
            held_by="clock",
            what="binlogs",
            since=last_run.checked_at,
            why=last_run.refused,
            way_out=f"if it is right: wait; wrong: sexton stop {instance}",
        )
    for log in logs:
        if log.awaiting_seq is not None:
            yield Blocker(
                severity=Severity.APPROVAL,
                instance=instance,
                held_by="approval",
                what=f"binlog {log.name}: records up to {log.awaiting_seq}",
                since=log.awaiting_since,
                why="the cut is very large",
                way_out=f"sexton binlog approve {log.name.replace('/', ' ')} --upto {log.awaiting_seq} "
                f"--instance {instance}",
            )
    yield from _consumers(instance, logs, consumers)
    yield from _replicas(instance, retaining)
    for b in standings:  # backends that do not delete what was cut: they do not ask for orders, or report problems
        is_silent = b.pulled_at is None or b.pulled_at < now - SILENT_MS
        if b.behind and (is_silent or b.problems):
            since = " since" if b.pulled_at else ""
            yield Blocker(
                instance=instance,
                held_by=f"backend {b.backend}",
                what=f"binlogs of {quantity(b.behind, 'replica')}",
                since=b.pulled_at,
                why=b.problem or f"it has {'not' if b.pulled_at else 'never'} asked for orders to delete{since}",
                way_out=f"sexton replica backends {instance}",
                count=b.behind,
            )
    for follower in service.stores.binlogs.journal.followers(instance):
        if follower.lost_at is None and follower.applied < head and follower.seen_at < now - SILENT_MS:
            yield Blocker(
                instance=instance,
                held_by=f"follower {follower.name}",
                what=f"journal: {quantity(head - follower.applied, 'entry', 'entries')} after {follower.applied}",
                since=follower.seen_at,
                why="it has not replayed them",
                way_out=f"if it never returns: sexton binlog remove-follower {follower.name} --instance {instance}",
                count=head - follower.applied,
            )


def _consumers(instance: str, logs: "Sequence[Log]", consumers: "Sequence[Consumer]") -> Iterator[Blocker]:
    """Yield each consumer that blocks cuts once, however many logs it reads."""
    active = {(consumer.db, consumer.name) for consumer in consumers if consumer.lost_at is None}
    blocked_logs: dict[str, list[Log]] = {}
    for log in logs:
        for name in log.held:
            if (log.db, name) in active:  # as of the last run: it may be LOST, or removed, since
                blocked_logs.setdefault(name, []).append(log)
    for name, logs_of_consumer in sorted(blocked_logs.items()):
        first = min(logs_of_consumer, key=lambda log: (log.held_since or 0, log.name))
        others = f" and {len(logs_of_consumer) - 1:,} more" if len(logs_of_consumer) > 1 else ""
        yield Blocker(
            instance=instance,
            held_by=f"consumer {name}",
            what=f"binlog {first.name}{others}: records after {first.held[name]}",
            since=first.held_since,
            why="it has not acknowledged them",
            way_out=f"sexton binlog explain {first.db} {first.tbl}".rstrip() + f" --instance {instance}",
            count=len(logs_of_consumer),
        )


def _replicas(instance: str, retaining: "Sequence[RetainingReplica]") -> Iterator[Blocker]:
    """Yield each backend whose replicas block deletions, and the tablets of which no replica decides."""
    for group in retaining:
        if group.backend:
            held_by, what = f"replicas on {group.backend}", f"cuts, for {group.copies:,} of its replicas"
            way_out = f"sexton replica list {instance}"
            if "report" in group.why:
                decommission = f"sexton replica decommission {group.backend} --instance {instance}"
                way_out += f"; if the backend never returns: {decommission}"
        else:
            held_by, what = "replicas", f"cuts of {quantity(group.copies, 'tablet')}"
            way_out = NO_REPLICA_DECIDES
        yield Blocker(
            instance=instance,
            held_by=held_by,
            what=what,
            since=group.since,
            why=group.why,
            way_out=way_out,
            count=group.copies,
        )
