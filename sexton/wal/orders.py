"""Define the orders and reports that owners and nodes send: maps, openings and heartbeats. Entry ids are inclusive."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message
from sexton.wal.model import DAY, MOST


class RegionMapping(Message):
    """A region in an owner's map.

    ``first`` is the topic's end before the region's first append; None: the owner does not know it. It is used when
    the region is mapped for the first time. A region that returns after its drop became final has lost its old values.
    ``node`` leads the region: no other one reports or opens it; empty: the first node that does either in this epoch.
    """

    region: str
    epoch: int = Field(0, ge=0, le=MOST)
    first: int | None = Field(None, ge=0, le=MOST)
    node: str = ""


class RegionMove(Message):
    """A region that appends to another topic now; ``epoch`` and ``node`` as in ``RegionMapping``."""

    region: str
    epoch: int = Field(0, ge=0, le=MOST)
    node: str = ""


class RegionDrop(Message):
    """A dropped region, and the seconds from now during which its drop can still be undone."""

    region: str
    undrop_seconds: int = Field(0, ge=0, le=3_650 * DAY)


class MapOrder(Message):
    """All regions of a topic, as the owner knows them.

    ``moved`` lists regions that append to another topic now, whose last append to this topic was acknowledged, and that
    may still have entries in it. A region that the map does not name still retains its entries: the owner may have
    forgotten it.
    """

    instance: str = Field(min_length=1)
    """The sender's; a topic belongs to the instance that first maps it, or for which an operator enables it."""
    topic: str
    generation: int = Field(ge=0, le=MOST)
    regions: tuple[RegionMapping, ...] = ()
    moved: tuple[RegionMove, ...] = ()
    dropped: tuple[RegionDrop, ...] = ()


class OpenRegionOrder(Message):
    """Open a region.

    ``flushed`` holds, for each stream, the last entry that the region's manifest names; None: the manifest names no
    file of that stream. ``node`` opens it.
    """

    topic: str
    region: str
    epoch: int = Field(ge=0, le=MOST)
    flushed: tuple[Annotated[int, Field(ge=0, le=MOST)] | None, ...] = (None,)
    node: str = Field(min_length=1)


class Stream(Message):
    """How far one stream of entries of a region is safe; ids are inclusive."""

    flushed: int | None = Field(None, ge=0)
    idle: int | None = Field(None, ge=0)


class LeaderReport(Message):
    """The leader's report on a region, for one topic.

    A report with an impossible number is ignored instead of refused: the node's other reports still count.
    """

    topic: str
    region: str
    epoch: int = Field(ge=0)
    streams: tuple[Stream, ...] = Field(min_length=1)
    leader: bool = True


class HeartbeatReceipt(Message):
    """How many reports of a node were taken, wait until the end of their topic is seen as high, or were ignored."""

    taken: int = 0
    waiting: int = 0
    ignored: int = 0
