"""Kafka topics that regions share, and how far they are purged; see ``sexton.wal``.

A topic belongs to one instance. A token of another instance receives the same refusal for it as for an unknown topic.
"""

from collections import Counter
from dataclasses import replace
from typing import Annotated

from pydantic import FailFast, Field

from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.message import Message, Page, StrictMessage
from sexton.operations.fields import MAX_NUMBER, ROWS, Covered, Flag, Instance, Reason, StartedWork, Whole, page
from sexton.operations.registry import OF_NODE, READS, Call, Logged, operation
from sexton.operators.access.model import ANY_NODE, Grant
from sexton.wal.messages import NODE_URL, PurgeRequest, PurgeRoundRequest
from sexton.wal.model import MAX_TOPIC_REGIONS, Mode, Pin, Purge, Topic, TopicExplanation, TopicStanding
from sexton.wal.policy import (
    NODE,
    TOPIC,
    HeartbeatReceipt,
    LeaderReport,
    MapOrder,
    OpenRegionOrder,
    RegionMap,
    RegionName,
    Replay,
)

REPLAY_PATH = "/v1/topics/{topic}/replays/{replay}"
TopicName = Annotated[str, Field(pattern=TOPIC, description="The topic.")]
Node = Annotated[str, Field(pattern=NODE, description="The node.")]
ReplayId = Annotated[
    str,
    Flag(shown="REPLAY"),
    Field(pattern="^[0-9a-f]{32}$", description="The replay: 32 hexadecimal digits; see: sexton wal regions."),
]
EntryNumber = Annotated[Whole | None, Field(ge=0, le=MAX_NUMBER)]


class Heartbeat(StrictMessage):
    """A node's report of its regions. ``url``: where the node answers ``POST /v1/regions/flush``."""

    url: Annotated[str, Field(max_length=500, pattern=rf"^$|^{NODE_URL}$")] = ""
    reports: Annotated[tuple[LeaderReport, ...], FailFast(), Field(max_length=MAX_TOPIC_REGIONS)] = ()


class ShownTopic(Topic):
    """A topic. ``lagging_regions``: how many block so much that a purge asks them to flush."""

    lost_regions: int = 0
    lagging_regions: int = 0


class Restored(Message):
    """How many enabled topics wait for a map of their owner."""

    waiting: int


def instance_of(call: Call, topic: str, **_: object) -> str:
    """Return the instance of a topic, or raise ``UnknownTopic``."""
    return call.stores.wal.store.topic(topic).instance


UNKNOWN = (
    "topic {topic}: no map of its instance names it, and no operator has enabled it there; the owner sends its map "
    "first: PUT /v1/topics/{topic}/regions"
)
OF_TOPIC = Logged("{topic}", of=instance_of, unknown=UNKNOWN)
READS_TOPIC = replace(OF_TOPIC, changes=False)
RESETS = replace(OF_TOPIC, asks=True, once=True)


@operation("wal list", "GET /v1/topics", Grant.READ, READS)
def topics(
    call: Call,
    instance: Covered = None,
    *,
    after: Annotated[str, Field(max_length=249, description="Only topics whose names come after this one.")] = "",
) -> Page[ShownTopic]:
    """Print topics, a thousand at a time: how far each is purged, and what blocks it.

    Example: sexton wal list
    """
    store = call.stores.wal.store
    rows = store.topics(after, ROWS + 1, instance=instance)
    names = [topic.name for topic in rows[:ROWS]]
    lost, candidates = store.lost(names), call.stores.wal.floors.regions_to_flush(names)
    lagging = Counter(candidate.topic for candidate in candidates)
    shown = tuple(
        ShownTopic(**t.model_dump(), lost_regions=lost.get(t.name, 0), lagging_regions=lagging[t.name])
        for t in rows[:ROWS]
    )
    return Page[ShownTopic](**page(rows, ROWS, "name") | {"items": shown})


@operation("wal show", "GET /v1/topics/{topic}", Grant.READ, READS_TOPIC)
def topic(call: Call, topic: TopicName) -> Topic:
    """Print a topic: its floor, the last state of its log, and what blocks its purge.

    Example: sexton wal show orders-wal
    """
    return call.stores.wal.store.topic(topic)


@operation("wal regions", "GET /v1/topics/{topic}/regions", Grant.READ, READS_TOPIC)
def topic_regions(call: Call, topic: TopicName) -> TopicStanding:
    """Print the regions of a topic, the one that needs the oldest entry first, and its replays; from SQL alone.

    Example: sexton wal regions orders-wal
    """
    return call.stores.wal.standing(topic)


@operation("wal explain", "GET /v1/topics/{topic}/explain", Grant.OPERATE, READS_TOPIC)
def explain_topic(call: Call, topic: TopicName) -> TopicExplanation:
    """Explain what a purge would delete now.

    Also which regions block the rest, and how far each has flushed. It reads the log, stores what it saw of it, and
    decides as a purge does; it deletes nothing.

    Example: sexton wal explain orders-wal
    """
    return call.stores.wal.explain(topic)


@operation("wal purges", "GET /v1/topics/{topic}/purges", Grant.READ, READS_TOPIC)
def purges(call: Call, topic: TopicName) -> Page[Purge]:
    """Print the newest purges of a topic: how far, when, what was deleted, and which regions blocked the rest.

    Example: sexton wal purges orders-wal
    """
    call.stores.wal.store.topic(topic)
    return Page[Purge](items=tuple(call.stores.wal.store.purges(topic)))


@operation("wal map", "PUT /v1/topics/{topic}/regions", Grant.OWNER, Logged("{topic}", routine=True), is_large=True)
def map_regions(call: Call, topic: TopicName, map_: RegionMap, *, instance: Instance = "") -> Topic:
    """Store all regions of the topic, before the first append of each. Repeating a map renews its freshness.

    The first map gives the topic to the instance.
    """
    return call.stores.wal.maps.put(MapOrder(instance=instance, topic=topic, **dict(map_)))


@operation("wal heartbeat", "POST /v1/nodes/{node}/heartbeat", Grant.OPERATE, OF_NODE, is_large=True)
def heartbeat(call: Call, node: Node, beat: Heartbeat, *, instance: Instance = "") -> HeartbeatReceipt:
    """Store the reports of a node. A report that is outdated, impossible or of another instance's topic is ignored.

    With a report of another node's region the answer is a refusal; the node's other reports are stored.
    """
    return call.stores.wal.heartbeats.record_reports(instance, node, beat.reports, beat.url)


@operation("wal enable", "POST /v1/topics/{topic}/enable", Grant.OPERATE, Logged("{topic}"))
def enable_topic(
    call: Call,
    topic: TopicName,
    *,
    instance: Instance = "",
    logical: Annotated[bool, Field(description="Only raise its floor; Kafka's retention deletes.")] = False,
) -> Topic:
    """Enable purges of a topic, which the log must have. Repeatable.

    Nothing is deleted before the owner's map and the reports of all regions have arrived. A topic belongs to the
    instance whose owner mapped it first, or for which it was enabled first.

    Example: sexton wal enable orders-wal
    """
    wal, mode = call.stores.wal, Mode.LOGICAL if logical else Mode.DELETE
    return wal.enable(topic, mode, instance, wal.log.facts([topic])[topic])


@operation(
    "wal disable", "POST /v1/topics/{topic}/disable", Grant.OPERATE, replace(OF_TOPIC, keeps=True, reserved=True)
)
def disable_topic(call: Call, topic: TopicName) -> Topic:
    """Disable purges of a topic. Entries whose deletion was already requested from the log are still deleted.

    Example: sexton wal disable orders-wal
    """
    return call.stores.wal.store.disable(topic)


@operation("wal purge", "POST /v1/topics/{topic}/purge", Grant.OPERATE, replace(OF_TOPIC, once=True))
def purge(call: Call, topic: TopicName) -> StartedWork:
    """Purge a topic now.

    Regions flush, the new floor is persisted, and the entries below it are deleted. Prints the result. Ctrl-C stops
    waiting, not the purge. What it would do: sexton wal explain.

    Example: sexton wal purge orders-wal
    """
    instance = call.stores.wal.store.topic(topic).instance
    deployment = call.deployment.settings.require_deployment()
    return call.start(PurgeRequest(topic=topic, deployment=deployment, instance=instance, requested_by=call.by))


@operation("wal round run", "POST /v1/topics-round", Grant.OPERATE, Logged(once=True))
def run_topic_round(call: Call) -> StartedWork:
    """Start a round of topics now: it purges those that are due and have work; waits for flushes outlast it.

    Example: sexton wal round run
    """
    deployment = call.deployment.settings.require_deployment()
    return call.start(PurgeRoundRequest(deployment=deployment, requested_by=call.by))


@operation("wal reset", "POST /v1/topics/{topic}/reset", Grant.ADMIN, replace(RESETS, subject="{topic} {region}"))
def reset_topic(
    call: Call,
    topic: TopicName,
    *,
    reason: Reason,
    region: Annotated[RegionName | None, Field(description="Only this region: set what it still needs.")] = None,
    to: Annotated[EntryNumber, Field(description="The first entry that it needs.")] = None,
    epoch: Annotated[EntryNumber, Field(description="Its next epoch, if its last one is wrong.")] = None,
) -> TopicStanding:
    """Accept lost entries, or a recreated topic.

    A reset ends a LOSS, or a quarantine. With --region: the region needs nothing below --to (by default: what is
    deleted), and opens there. Without: all that is known of the topic is forgotten; it is purged again when its owner
    has sent its map and its regions have reported, in newer epochs.

    Example: sexton wal reset orders-wal --region 17 --reason 'restored from last night, the gap is accepted'
    """
    if region is None and (to is not None or epoch is not None):
        raise WrongUsage("--to and --epoch set what one region needs: name it with --region")
    if region is None:
        call.stores.wal.resets.reset_topic(topic)
    else:
        call.stores.wal.resets.reset_region(topic, region, to, epoch)
    return call.stores.wal.standing(topic)


@operation("wal assign", "POST /v1/topics/{topic}/assign", Grant.ADMIN, replace(RESETS, subject="{topic} to {to}"))
def assign_topic(
    call: Call,
    topic: TopicName,
    to: Annotated[
        str, Flag(shown="INSTANCE"), Field(min_length=1, max_length=63, description="Whose topic it is from now on.")
    ],
    *,
    reason: Reason,
) -> Topic:
    """Give a topic to another instance, and forget all that is known of it, as a reset does.

    It is purged again when the new owner has sent its map and its regions have reported, in newer epochs.

    Example: sexton wal assign orders-wal shop --reason 'the map of test had the wrong name'
    """
    call.caller.require(Grant.ADMIN, to)
    call.stores.registry.instance(to)
    return call.stores.wal.resets.reset_topic(topic, to)


@operation("wal restored", "POST /v1/topics-restored", Grant.OPERATE, Logged(keeps=True))
def restored(call: Call, *, reason: Reason) -> Restored:
    """Report that Sexton's database was restored. No topic is purged before its owner has sent its map again.

    Example: sexton wal restored --reason 'restored from last night'
    """
    return Restored(waiting=call.stores.wal.resets.distrust_maps())


@operation(
    "wal replay open",
    "POST /v1/topics/{topic}/replays",
    Grant.OPERATE,
    replace(OF_TOPIC, subject="{topic}/{replay.region}", keeps=True, node=ANY_NODE),
)
def open_replay(call: Call, topic: TopicName, replay: Replay) -> Pin:
    """Pin the entries that a region must read before it opens. Refused if some are deleted; the error names them."""
    node = replay.node or call.caller.node
    call.caller.require(Grant.OPERATE, instance_of(call, topic), node=node)
    if not node:
        raise BadInput("name the node that opens the region: this token is no node's")
    order = OpenRegionOrder(topic=topic, **(dict(replay) | {"node": node}))
    return call.stores.wal.replays.open(order)


def _instance_of_replay(call: Call, replay: str, topic: str) -> str:
    """Return the instance of a replay; of an unknown one, that of the topic."""
    pin = call.stores.wal.replays.find(replay)
    return instance_of(call, topic if pin is None else pin.topic)


OF_REPLAY = Logged("{topic}/{replay}", of=_instance_of_replay, unknown=UNKNOWN, node=ANY_NODE, reserved=True)


def _require_node(call: Call, topic: str, replay: str) -> None:
    """Raise ``Forbidden`` if the caller is another node than that of the replay."""
    instance_of(call, topic)
    pin = call.stores.wal.replays.find(replay)
    if pin is not None:
        call.caller.require(Grant.OPERATE, instance_of(call, pin.topic), node=pin.node)


@operation(
    "wal replay renew", f"PATCH {REPLAY_PATH}", Grant.OPERATE, replace(OF_REPLAY, routine=True), is_for_programs=True
)
def renew_replay(call: Call, topic: TopicName, replay: ReplayId) -> Pin:
    """Extend a pin by its own length."""
    _require_node(call, topic, replay)
    return call.stores.wal.replays.renew(replay)


@operation("wal replay release", f"DELETE {REPLAY_PATH}", Grant.OPERATE, OF_REPLAY)
def release_replay(call: Call, topic: TopicName, replay: ReplayId) -> None:
    """End a replay. Repeatable.

    Example: sexton wal replay release orders-wal 0123456789abcdef0123456789abcdef
    """
    _require_node(call, topic, replay)
    call.stores.wal.replays.release(replay)
