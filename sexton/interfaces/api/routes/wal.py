"""Kafka topics that regions share: region maps of owners, heartbeats and replays of nodes; see ``sexton.wal``.

A topic belongs to no instance, so every route here needs a scope that covers every instance.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from sexton.interfaces.api.caller import Caller, CurrentCaller, Deed, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.lanes import reserved
from sexton.interfaces.operator_service import OperatorService
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.topics import NODE, TOPIC, Heartbeat, RegionMap, Replay, StartedPurge, Topics
from sexton.wal.messages import PurgeRequest
from sexton.wal.model import Pin, Topic
from sexton.wal.orders import HeartbeatReceipt, LeaderReport, MapOrder, OpenRegionOrder

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Name = Annotated[str, Path(pattern=TOPIC)]
Node = Annotated[str, Path(pattern=NODE)]
Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
After = Annotated[str, Query(max_length=249, description="only topics whose names come after this one")]


@routes.get("/topics")
def topics(service: Service, caller: CurrentCaller, after: After = "") -> Topics:
    """Return at most 1,000 topics in the order of their names."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return Topics(topics=tuple(service.stores.wal.store.topics(after, 1_000)))


@routes.get("/topics/{topic}")
def show(topic: Name, service: Service, caller: CurrentCaller) -> Topic:
    """Return a topic: its floor, the last state of its log, and what blocks its purge."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return service.stores.wal.store.topic(topic)


@routes.put("/topics/{topic}/regions", max_body_size=MAX_ITEMS_BYTES)
def regions(topic: Name, body: RegionMap, service: Service, caller: CurrentCaller) -> Topic:
    """Store all regions of the topic, before the first append of each. Repeating a map renews its freshness."""
    with caller.routine(Deed("wal map", "", Grant.OWNER, topic)):
        return service.stores.wal.maps.put(MapOrder(topic=topic, **body.model_dump()))


@routes.post("/topics/{topic}/purge", status_code=202)
def purge(topic: Name, request: Request, service: Service, caller: CurrentCaller) -> StartedPurge:
    """Start the purge of a topic. Do not wait for its end."""
    with caller.recorded(Deed("wal purge", "", Grant.OPERATE, topic)):
        service.stores.wal.store.topic(topic)
        run = request.app.state.rounds.purge(PurgeRequest(topic=topic, requested_by=caller.token.name))
    return StartedPurge(topic=topic, workflow=run.workflow, run=run.run)


@routes.post("/nodes/{node}/heartbeat", max_body_size=MAX_ITEMS_BYTES)
def heartbeat(node: Node, body: Heartbeat, service: Service, caller: CurrentCaller) -> HeartbeatReceipt:
    """Store the reports of a node. A report that is outdated or impossible is ignored.

    With a report of another node's region the answer is a refusal; the node's other reports are stored.
    """
    with caller.routine(Deed("wal heartbeat", "", Grant.OPERATE, node, node=node)):
        reports = [LeaderReport.model_validate(report, from_attributes=True) for report in body.reports]
        return service.stores.wal.heartbeats.record_reports(node, reports, body.url)


@routes.post("/topics/{topic}/replays", status_code=201)
def open_(topic: Name, body: Replay, service: Service, caller: CurrentCaller) -> Pin:
    """Pin the entries that a region must read before it opens. Refused if some are deleted; the error names them."""
    node = body.node or caller.node
    with caller.recorded(Deed("wal replay", "", Grant.OPERATE, f"{topic}/{body.region}", node=node), keeps=True):
        if not node:
            raise BadInput("name the node that opens the region: this token is no node's")
        order = OpenRegionOrder(topic=topic, **(body.model_dump() | {"node": node}))
        return service.stores.wal.replays.open(order)


@routes.patch("/topics/{topic}/replays/{replay}")
@reserved
def renew(topic: Name, replay: Id, service: Service, caller: CurrentCaller) -> Pin:
    """Extend a pin by its own length."""
    node = _node_of(replay, service, caller)
    with caller.routine(Deed("wal replay renew", "", Grant.OPERATE, f"{topic}/{replay}", node=node)):
        return service.stores.wal.replays.renew(replay)


@routes.delete("/topics/{topic}/replays/{replay}", status_code=204)
@reserved
def release(topic: Name, replay: Id, service: Service, caller: CurrentCaller) -> None:
    """End a replay. Idempotent."""
    node = _node_of(replay, service, caller)
    with caller.recorded(Deed("wal replay release", "", Grant.OPERATE, f"{topic}/{replay}", node=node)):
        service.stores.wal.replays.release(replay)


def _node_of(replay: str, service: OperatorService, caller: Caller) -> str:
    """Return the node of a replay; for an unknown replay the caller's own node, as there is nothing to protect."""
    caller.require(Grant.OPERATE, EVERY_INSTANCE, node=caller.node)  # before a row is read
    pin = service.stores.wal.replays.find(replay)
    return caller.node if pin is None else pin.node
