"""The API for programs: ``Sexton`` and ``AsyncSexton``, for meta services, nodes of regions, and jobs that copy.

``with client.protect(...)`` keeps what is copied, renews it in the background, and stops the caller when that fails;
``with client.replay(...)`` does so for what a region reads of its topic. The values that calls take are here too.
"""

from sexton.api.bodies import DroppedRegion, Heartbeat, MappedRegion, RegionMap, RegionReport, StreamReport
from sexton.client.asynchronous import AsyncSexton
from sexton.client.errors import ProtectionLost, Refused, ReplayLost, Unreachable
from sexton.client.replaying import Entry, Source
from sexton.client.sync import Sexton
from sexton.protection.filter import Filter
from sexton.protection.model import Item
from sexton.wal.model import Facts

__all__ = [
    "AsyncSexton",
    "DroppedRegion",
    "Entry",
    "Facts",
    "Filter",
    "Heartbeat",
    "Item",
    "MappedRegion",
    "ProtectionLost",
    "Refused",
    "RegionMap",
    "RegionReport",
    "ReplayLost",
    "Sexton",
    "Source",
    "StreamReport",
    "Unreachable",
]
