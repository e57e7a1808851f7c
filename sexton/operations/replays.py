"""Replays: what a region must read of its topic before it opens is pinned, so that no purge deletes it."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.errors import BadInput
from sexton.operations.fields import Flag
from sexton.operations.registry import Call, Logged, operation
from sexton.operations.topics import UNKNOWN, TopicName, instance_of
from sexton.operators.access.model import ANY_NODE, Grant
from sexton.wal.model import Pin
from sexton.wal.orders import OpenRegionOrder, Replay

ReplayId = Annotated[
    str,
    Flag(shown="REPLAY"),
    Field(pattern="^[0-9a-f]{32}$", description="The replay: 32 hexadecimal digits; see: sexton wal regions."),
]


@operation(
    "wal replay open",
    "POST /v1/topics/{topic}/replays",
    Grant.OPERATE,
    Logged("{topic}/{replay.region}", keeps=True, of=instance_of, unknown=UNKNOWN, node=ANY_NODE),
)
def open_replay(call: Call, topic: TopicName, replay: Replay) -> Pin:
    """Pin the entries that a region must read before it opens. Refused if some are deleted; the error names them."""
    node = replay.node or call.caller.node
    call.caller.require(Grant.OPERATE, instance_of(call, topic), node=node)
    if not node:
        raise BadInput("name the node that opens the region: this token is no node's")
    order = OpenRegionOrder(topic=topic, **(dict(replay) | {"node": node}))
    return call.stores.wal.replays.open(order)


def _instance_of(call: Call, replay: str, topic: str) -> str:
    """Return the instance of a replay; of an unknown one, that of the topic."""
    pin = call.stores.wal.replays.find(replay)
    return instance_of(call, topic if pin is None else pin.topic)


OF_REPLAY = Logged("{topic}/{replay}", of=_instance_of, unknown=UNKNOWN, node=ANY_NODE, reserved=True)


def _require_node(call: Call, topic: str, replay: str) -> None:
    """Raise ``Forbidden`` if the caller is another node than that of the replay."""
    instance_of(call, topic)
    pin = call.stores.wal.replays.find(replay)
    if pin is not None:
        call.caller.require(Grant.OPERATE, instance_of(call, pin.topic), node=pin.node)


@operation(
    "wal replay renew",
    "PATCH /v1/topics/{topic}/replays/{replay}",
    Grant.OPERATE,
    Logged("{topic}/{replay}", routine=True, of=_instance_of, unknown=UNKNOWN, node=ANY_NODE, reserved=True),
    is_for_programs=True,
)
def renew_replay(call: Call, topic: TopicName, replay: ReplayId) -> Pin:
    """Extend a pin by its own length."""
    _require_node(call, topic, replay)
    return call.stores.wal.replays.renew(replay)


@operation("wal replay release", "DELETE /v1/topics/{topic}/replays/{replay}", Grant.OPERATE, OF_REPLAY)
def release_replay(call: Call, topic: TopicName, replay: ReplayId) -> None:
    """End a replay. Repeatable.

    Example: sexton wal replay release orders-wal 0123456789abcdef0123456789abcdef
    """
    _require_node(call, topic, replay)
    call.stores.wal.replays.release(replay)
