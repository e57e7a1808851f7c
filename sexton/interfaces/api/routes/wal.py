"""Kafka topics that regions share: maps by their owners, heartbeats and replays by nodes; see ``sexton.wal``."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from sexton.interfaces.api.caller import Asker, AtDesk, Caller, Reader
from sexton.interfaces.operator_service import OperatorService
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import Grant
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.topics import TOPIC, Heartbeat, Purging, RegionMap, Replay, Topics
from sexton.wal.messages import PurgeRequest
from sexton.wal.model import HeartbeatReceipt, LeaderReport, MapOrder, OpenRegionOrder, Pin, Topic

routes = APIRouter(prefix="/v1")
Name = Annotated[str, Path(pattern=TOPIC)]
Node = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
After = Annotated[str, Query(max_length=249, description="only topics whose names come after this one")]


@routes.get("/topics")
def topics(at: AtDesk, _: Reader, after: After = "") -> Topics:
    """Return topics, a thousand at a time, in the order of their names."""
    return Topics(topics=tuple(at.wal.store.topics(after, 1_000)))


@routes.get("/topics/{topic}")
def show(topic: Name, at: AtDesk, _: Reader) -> Topic:
    """Return a topic: its floor, what was seen of the log last, what keeps it from being purged."""
    return at.wal.store.topic(topic)


@routes.put("/topics/{topic}/regions", max_body_size=MAX_ITEMS_BYTES)
def regions(topic: Name, body: RegionMap, at: AtDesk, asker: Asker) -> Topic:
    """Store the owner's map, all regions of the topic: before the first append of each. The same again is fresh."""
    asker.needs(Grant.OPERATE)
    return at.wal.maps.put(MapOrder(topic=topic, **body.model_dump()))


@routes.post("/topics/{topic}/purge", status_code=202)
async def purge(topic: Name, request: Request, at: AtDesk, asker: Asker) -> Purging:
    """Start the purge of one topic. Does not wait for it."""
    return await run_in_threadpool(_purge, topic, request, at, asker)


def _purge(topic: str, request: Request, at: OperatorService, asker: Caller) -> Purging:
    with asker.recorded(at, "wal purge", subject=topic):
        asker.needs(Grant.OPERATE)
        at.wal.store.topic(topic)
        begun = request.app.state.rounds.purge(PurgeRequest(topic=topic, requested_by=asker.token.name))
    return Purging(topic=topic, workflow=begun.workflow, run=begun.run)


@routes.post("/nodes/{node}/heartbeat", max_body_size=MAX_ITEMS_BYTES)
def heartbeat(node: Node, body: Heartbeat, at: AtDesk, asker: Asker) -> HeartbeatReceipt:
    """Take what a node says of its regions: what is older than what is known, or cannot be, is ignored."""
    asker.needs(Grant.OPERATE, node=node)
    reports = [LeaderReport.model_validate(its, from_attributes=True) for its in body.reports]
    return at.wal.heartbeats.hear(node, reports, body.url)


@routes.post("/topics/{topic}/replays", status_code=201)
def open_(topic: Name, body: Replay, at: AtDesk, asker: Asker) -> Pin:
    """Pin what a region must read before it opens; refused where some of it is gone, which is named."""
    node = body.node or asker.node
    asker.needs(Grant.OPERATE, node=node)
    its = body.model_dump() | {"node": node}
    return at.wal.replays.open(OpenRegionOrder(topic=topic, **its))


@routes.patch("/topics/{topic}/replays/{replay}")
def renew(topic: Name, replay: Id, at: AtDesk, asker: Asker) -> Pin:  # noqa: ARG001
    """Keep what is pinned for as long again."""
    asker.needs(Grant.OPERATE, node=_whose(replay, at, asker))
    return at.wal.replays.renew(replay)


@routes.delete("/topics/{topic}/replays/{replay}", status_code=204)
def release(topic: Name, replay: Id, at: AtDesk, asker: Asker) -> None:  # noqa: ARG001
    """End a replay. Idempotent."""
    asker.needs(Grant.OPERATE, node=_whose(replay, at, asker))
    at.wal.replays.release(replay)


def _whose(replay: str, at: OperatorService, asker: Caller) -> str:
    """Return whose replay it is; of one that is not known, the asker's own: there is nothing of anybody else's."""
    if asker.token.scope.grant not in (Grant.OPERATE, Grant.ADMIN, Grant.NODE):
        raise Forbidden(f"a token of scope {asker.token.scope} is not for this")
    found = at.wal.replays.find(replay)
    return asker.node if found is None else found.node
