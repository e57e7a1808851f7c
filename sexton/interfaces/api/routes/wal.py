"""Kafka topics that regions share: region maps of owners, heartbeats and replays of nodes; see ``sexton.wal``.

A topic belongs to one instance. A token of another instance receives the same refusal for it as for an unknown topic.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from sexton.interfaces.api.caller import Caller, CoveredInstance, CurrentCaller, SelectedInstance, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import reserved
from sexton.interfaces.operator_service import OperatorService
from sexton.kernel.errors import BadInput
from sexton.operations.registry import Deed
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import ANY_NODE, EVERY_INSTANCE, UNKNOWN_INSTANCE, Grant, scopes_text
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.topics import (
    NODE,
    TOPIC,
    Heartbeat,
    PurgeSignal,
    Purging,
    RegionMap,
    Replay,
    SignalledPurge,
    StartedPurge,
    TopicOwner,
    TopicReset,
    Topics,
    TopicStanding,
)
from sexton.runtime.temporal.purges import PURGES
from sexton.wal import explain
from sexton.wal.messages import PurgeRequest
from sexton.wal.model import Mode, Pin, Topic
from sexton.wal.orders import HeartbeatReceipt, LeaderReport, MapOrder, OpenRegionOrder
from sexton.wal.port import UnknownTopic

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Name = Annotated[str, Path(pattern=TOPIC)]
Node = Annotated[str, Path(pattern=NODE)]
Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
After = Annotated[str, Query(max_length=249, description="only topics whose names come after this one")]


@routes.get("/topics")
def topics(service: Service, caller: CurrentCaller, instance: CoveredInstance, after: After = "") -> Topics:
    """Return at most 1,000 topics in the order of their names, of one instance or of all that the token covers."""
    caller.require(Grant.READ, instance)
    of_instance = None if instance == EVERY_INSTANCE else instance
    return Topics(topics=tuple(service.stores.wal.store.topics(after, 1_000, instance=of_instance)))


@routes.get("/topics/{topic}")
def show(topic: Name, service: Service, caller: CurrentCaller) -> Topic:
    """Return a topic: its floor, the last state of its log, and what blocks its purge."""
    return _permitted(topic, Grant.READ, service, caller)


@routes.put("/topics/{topic}/regions", max_body_size=MAX_ITEMS_BYTES)
def regions(topic: Name, body: RegionMap, service: Service, caller: CurrentCaller, instance: SelectedInstance) -> Topic:
    """Store all regions of the topic, before the first append of each. Repeating a map renews its freshness.

    The first map gives the topic to the instance.
    """
    with caller.routine(Deed("wal map", instance, Grant.OWNER, topic)):
        return service.stores.wal.maps.put(MapOrder(instance=instance, topic=topic, **body.model_dump()))


@routes.post("/topics/{topic}/purge", status_code=202)
def purge(topic: Name, request: Request, service: Service, caller: CurrentCaller) -> StartedPurge:
    """Start the purge of a topic. Do not wait for its end."""
    known = _find(topic, service)
    instance = UNKNOWN_INSTANCE if known is None else known.instance
    with caller.recorded(Deed("wal purge", instance, Grant.OPERATE, topic, is_named=False)):
        _permitted(topic, Grant.OPERATE, service, caller)
        order = PurgeRequest(
            topic=topic,
            deployment=service.settings.require_deployment(),
            instance=instance,
            requested_by=caller.name,
        )
        run = request.app.state.starter.start_purge(order)
    return StartedPurge(topic=topic, workflow=run.workflow, run=run.run)


@routes.post("/topics/{topic}/purge/{signal}", status_code=202)
def signal(
    topic: Name, signal: PurgeSignal, request: Request, service: Service, caller: CurrentCaller
) -> SignalledPurge:
    """Signal the running purge of the topic.

    ``cancel`` ends it before its next step, ``pause`` pauses it then, ``resume`` continues it, ``retry`` ends a
    backoff, and ``now`` makes it stop waiting for flushes.
    """
    instance = _permitted(topic, Grant.OPERATE, service, caller).instance
    with caller.recorded(Deed(f"wal {signal}", instance, Grant.OPERATE, topic)):
        workers = request.app.state.starter.signal(PURGES, topic, "purge_now" if signal == "now" else signal)
    return SignalledPurge(topic=topic, signal=signal, workers=workers)


@routes.get("/topics/{topic}/regions")
def standing(topic: Name, service: Service, caller: CurrentCaller) -> TopicStanding:
    """Return the regions of the topic, the one that needs the oldest entry first, and its replays."""
    _permitted(topic, Grant.READ, service, caller)
    return explain.standing(service.db, service.stores.wal, topic)


@routes.post("/topics/{topic}/enable")
def enable(topic: Name, body: Purging, service: Service, caller: CurrentCaller, instance: SelectedInstance) -> Topic:
    """Allow purges of the topic, which the log must have. Idempotent.

    Nothing is deleted before the owner's map and the reports of all regions have arrived. The first who enables or maps
    a topic gives it to the instance.
    """
    with caller.recorded(Deed("wal enable", instance, Grant.OPERATE, topic)):
        service.stores.registry.instance(instance)
        wal, mode = service.stores.wal, Mode.LOGICAL if body.logical else Mode.DELETE
        return wal.enable(topic, mode, instance, wal.log.facts([topic])[topic])


@routes.post("/topics/{topic}/disable")
@reserved
def disable(topic: Name, service: Service, caller: CurrentCaller) -> Topic:
    """Stop purging the topic. Idempotent."""
    instance = _permitted(topic, Grant.OPERATE, service, caller).instance
    with caller.recorded(Deed("wal disable", instance, Grant.OPERATE, topic), keeps=True):
        return service.stores.wal.store.disable(topic)


@routes.post("/topics/{topic}/reset")
def reset(topic: Name, body: TopicReset, service: Service, caller: CurrentCaller) -> TopicStanding:
    """Accept lost entries, or a topic that was created again: ends a LOSS, or a quarantine.

    With a region: it needs nothing below an entry, and opens there. Without: the topic is purged again when its owner
    has sent its map and its regions have reported, in newer epochs.
    """
    instance = _permitted(topic, Grant.ADMIN, service, caller).instance
    subject = topic if body.region is None else f"{topic}/{body.region}"
    with caller.recorded(Deed("wal reset", instance, Grant.ADMIN, subject, body.reason)):
        if body.region is None:
            service.stores.wal.resets.reset_topic(topic)
        else:
            service.stores.wal.resets.reset_region(topic, body.region, body.to, body.epoch)
    return explain.standing(service.db, service.stores.wal, topic)


@routes.post("/topics/{topic}/assign")
def assign(topic: Name, body: TopicOwner, service: Service, caller: CurrentCaller) -> Topic:
    """Give the topic to another instance, and forget all that is known of it, as a reset does."""
    before = _permitted(topic, Grant.ADMIN, service, caller).instance
    subject = f"{topic}, of {before} before"
    with caller.recorded(Deed("wal assign", body.instance, Grant.ADMIN, subject, body.reason)):
        service.stores.registry.instance(body.instance)
        return service.stores.wal.resets.reset_topic(topic, body.instance)


@routes.post("/nodes/{node}/heartbeat", max_body_size=MAX_ITEMS_BYTES)
def heartbeat(
    node: Node, body: Heartbeat, service: Service, caller: CurrentCaller, instance: SelectedInstance
) -> HeartbeatReceipt:
    """Store the reports of a node. A report that is outdated, impossible or of another instance's topic is ignored.

    With a report of another node's region the answer is a refusal; the node's other reports are stored.
    """
    with caller.routine(Deed("wal heartbeat", instance, Grant.OPERATE, node, node=node)):
        reports = [LeaderReport.model_validate(report, from_attributes=True) for report in body.reports]
        return service.stores.wal.heartbeats.record_reports(instance, node, reports, body.url)


@routes.post("/topics/{topic}/replays", status_code=201)
def open_(topic: Name, body: Replay, service: Service, caller: CurrentCaller) -> Pin:
    """Pin the entries that a region must read before it opens. Refused if some are deleted; the error names them."""
    node = body.node or caller.node
    known = _permitted(topic, Grant.OPERATE, service, caller, node=node)
    subject = f"{topic}/{body.region}"
    with caller.recorded(Deed("wal replay", known.instance, Grant.OPERATE, subject, node=node), keeps=True):
        if not node:
            raise BadInput("name the node that opens the region: this token is no node's")
        order = OpenRegionOrder(topic=topic, **(body.model_dump() | {"node": node}))
        return service.stores.wal.replays.open(order)


@routes.patch("/topics/{topic}/replays/{replay}")
@reserved
def renew(topic: Name, replay: Id, service: Service, caller: CurrentCaller) -> Pin:
    """Extend a pin by its own length."""
    with caller.routine(_about_replay("wal replay renew", topic, replay, service, caller)):
        return service.stores.wal.replays.renew(replay)


@routes.delete("/topics/{topic}/replays/{replay}", status_code=204)
@reserved
def release(topic: Name, replay: Id, service: Service, caller: CurrentCaller) -> None:
    """End a replay. Idempotent."""
    with caller.recorded(_about_replay("wal replay release", topic, replay, service, caller)):
        service.stores.wal.replays.release(replay)


def _about_replay(action: str, topic: str, replay: str, service: OperatorService, caller: Caller) -> Deed:
    """Return what changes a replay of a topic, if the caller may do that; an unknown replay belongs to no node."""
    known, node = _permitted(topic, Grant.OPERATE, service, caller, node=ANY_NODE), ANY_NODE
    pin = service.stores.wal.replays.find(replay)
    if pin is not None:  # it may be of another topic than the path names
        known, node = _permitted(pin.topic, Grant.OPERATE, service, caller, node=pin.node), pin.node
    return Deed(action, known.instance, Grant.OPERATE, f"{known.name}/{replay}", node=node)


def _permitted(topic: str, grant: Grant, service: OperatorService, caller: Caller, *, node: str | None = None) -> Topic:
    """Return a topic whose instance the token covers; a token of one instance learns nothing about others.

    Raises:
        Forbidden: the token does not permit it, does not cover the topic's instance, or no such topic is known in its
            own instance.
        UnknownTopic: the topic is unknown, and the token covers every instance.
    """
    known = _find(topic, service)
    instance = UNKNOWN_INSTANCE if known is None else known.instance
    if not caller.covers(instance):
        raise Forbidden(
            f"a token of scope {scopes_text(caller.scopes)} is not for topic {topic}: no map of its instance names it, "
            f"and no operator has enabled it there; the owner sends its map first: PUT /v1/topics/{topic}/regions"
        )
    caller.require(grant, instance, node=node)
    if known is None:
        raise UnknownTopic(topic)
    return known


def _find(topic: str, service: OperatorService) -> Topic | None:
    try:
        return service.stores.wal.store.topic(topic)
    except UnknownTopic:
        return None
