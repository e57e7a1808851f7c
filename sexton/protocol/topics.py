"""WAL topics: region maps, heartbeats of nodes, replays and purges; and the errors that the API refuses them with."""

from typing import Annotated, Literal

from pydantic import BaseModel, FailFast, Field, model_validator

from sexton.kernel.message import Message
from sexton.protocol.body import PRINTABLE, Body, Reason
from sexton.wal.addresses import NODE_URL
from sexton.wal.explanation import TopicStanding
from sexton.wal.model import MAX_TOPIC_REGIONS, Facts, Pin, Topic
from sexton.wal.orders import HeartbeatReceipt
from sexton.wal.port import (
    EpochTooHigh,
    LogFault,
    OldEpoch,
    OldMap,
    PinEnded,
    RegionOfAnotherNode,
    ReplayRefused,
    TooManyRegions,
    TooManyReplays,
)

__all__ = [
    "TOPIC",
    "DroppedRegion",
    "EpochTooHigh",
    "Facts",
    "Heartbeat",
    "HeartbeatReceipt",
    "LogFault",
    "MappedRegion",
    "MovedRegion",
    "OldEpoch",
    "OldMap",
    "Pin",
    "PinEnded",
    "PurgeSignal",
    "Purging",
    "RegionMap",
    "RegionOfAnotherNode",
    "RegionReport",
    "Replay",
    "ReplayRefused",
    "SignalledPurge",
    "StartedPurge",
    "StreamReport",
    "TooManyRegions",
    "TooManyReplays",
    "Topic",
    "TopicStanding",
    "Topics",
]
TOPIC = r"^[A-Za-z0-9._-]{1,249}$"
"""Kafka's rule for topic names."""
MAX_REGIONS = MAX_TOPIC_REGIONS
MAX_STREAMS = 16
NODE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
Region = Annotated[str, Field(min_length=1, max_length=256, pattern=PRINTABLE)]
NodeName = Annotated[str, Field(pattern=rf"^$|{NODE}")]
Entry = Annotated[int, Field(strict=True, ge=0, le=2**63 - 2)]
"""An entry's id; also an epoch, or a generation."""
Flushed = Annotated[int, Field(strict=True, ge=0, le=2**58)]
"""An entry's id; no log is longer."""


class MappedRegion(Body):
    """A region that appends to the topic. ``first``: the topic's end before the region's first append.

    ``node``: the only one that may report and open the region; empty: the first one that does in this epoch.
    """

    region: Region
    epoch: Entry = 0
    first: Entry | None = None
    node: NodeName = ""


class MovedRegion(Body):
    """A region that appends to another topic now; ``epoch`` and ``node`` as in ``MappedRegion``."""

    region: Region
    epoch: Entry = 0
    node: NodeName = ""


class DroppedRegion(Body):
    """A region that was dropped; the drop can be undone for ``undrop_seconds`` from now."""

    region: Region
    undrop_seconds: Annotated[int, Field(strict=True, ge=0, le=315_360_000)] = 0


class RegionMap(Body):
    """All regions of a topic. ``moved``: they append elsewhere now, and their last append here was answered."""

    generation: Entry
    regions: Annotated[tuple[MappedRegion, ...], Field(max_length=MAX_REGIONS)] = ()
    moved: Annotated[tuple[MovedRegion, ...], Field(max_length=MAX_REGIONS)] = ()
    dropped: Annotated[tuple[DroppedRegion, ...], Field(max_length=MAX_REGIONS)] = ()


class StreamReport(Body):
    """The last flushed entry of a stream, and its idle mark, both inclusive. A value that is no id is ignored."""

    flushed: Annotated[int, Field(ge=0)] | None = None
    idle: Annotated[int, Field(ge=0)] | None = None


class RegionReport(Body):
    """The leader's report of one region in one topic."""

    topic: Annotated[str, Field(pattern=TOPIC)]
    region: Region
    epoch: Annotated[int, Field(ge=0)]
    streams: Annotated[tuple[StreamReport, ...], Field(min_length=1, max_length=MAX_STREAMS)]
    leader: bool = True


class Heartbeat(Body):
    """A node's report of its regions. ``url``: where the node answers ``POST /v1/regions/flush``."""

    url: Annotated[str, Field(max_length=500, pattern=rf"^$|^{NODE_URL}$")] = ""
    reports: Annotated[tuple[RegionReport, ...], FailFast(), Field(max_length=MAX_REGIONS)] = ()


class Replay(Body):
    """A region that a node opens. ``flushed``: of each stream, the last entry that the region's manifest names.

    ``node``: only for callers without a node's token, whose name counts otherwise.
    """

    region: Region
    epoch: Entry
    flushed: Annotated[tuple[Flushed | None, ...], Field(min_length=1, max_length=MAX_STREAMS)] = (None,)
    node: NodeName = ""


class StartedPurge(Message):
    """The purge that was started."""

    topic: str
    workflow: str
    run: str


PurgeSignal = Literal["cancel", "pause", "resume", "retry", "now"]


class SignalledPurge(Message):
    """A signal was sent to the running purge. ``workers``: how many can deliver it; 0: none is known."""

    topic: str
    signal: PurgeSignal
    workers: int


class Purging(Body):
    """How a topic is purged. ``logical``: only its floor rises, and the retention of the log itself deletes."""

    logical: bool = False


class TopicReset(Body):
    """Why lost entries, or a topic that was created again, are accepted.

    ``region``: only this one; without, all that is known of the topic is forgotten. ``to``: the first entry that the
    region needs; None: the topic's first. ``epoch``: its next one; None: the one after its last.
    """

    reason: Reason
    region: Region | None = None
    to: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None
    epoch: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None

    @model_validator(mode="after")
    def _names_region(self) -> "TopicReset":
        if self.region is None and (self.to is not None or self.epoch is not None):
            raise ValueError("`to` and `epoch` set what one region needs; name the region")
        return self


class TopicOwner(Body):
    """Whose topic it is from now on, and why."""

    instance: Annotated[str, Field(min_length=1, max_length=64)]
    reason: Reason


class Topics(BaseModel):
    """Topics, in the order of their names."""

    topics: tuple[Topic, ...]
