"""Define the orders and reports that owners and nodes send: maps, openings and heartbeats. Entry ids are inclusive."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message, StrictMessage
from sexton.kernel.printable import PRINTABLE
from sexton.wal.model import DAY, MAX_TOPIC_REGIONS, MOST

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
