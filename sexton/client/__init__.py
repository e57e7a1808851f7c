"""The API for programs: ``Sexton`` and ``AsyncSexton``, for meta services, nodes of regions, and jobs that copy.

``with client.protect(...)`` keeps what is copied, renews it in the background, and stops the caller when that fails;
``with client.replay(...)`` does so for what a region reads of its topic; ``client.follow`` applies the journal of
binlogs and replicas to a ``FollowerState``. The values that calls take are here too.
"""

from sexton.client.asynchronous import AsyncSexton
from sexton.client.errors import JournalAhead, ProtectionLost, ReplayLost, RequestRefused, TooOld, Unreachable
from sexton.client.following import Following
from sexton.client.replaying import TopicEntry, TopicSource
from sexton.client.sync import Sexton
from sexton.protection.filter import Filter
from sexton.protection.model import Item
from sexton.protocol.binlog_bodies import (
    BackendReport,
    LogConfig,
    NewRecord,
    PlacedCopy,
    PlacedTablet,
    Placements,
    ReportedTablet,
)
from sexton.protocol.bodies import DroppedRegion, Heartbeat, MappedRegion, RegionMap, RegionReport, StreamReport
from sexton.replication.binlog.model import CutDone
from sexton.replication.journal.replaying import FollowerState
from sexton.wal.model import Facts

__all__ = [
    "AsyncSexton",
    "BackendReport",
    "CutDone",
    "DroppedRegion",
    "Facts",
    "Filter",
    "FollowerState",
    "Following",
    "Heartbeat",
    "Item",
    "JournalAhead",
    "LogConfig",
    "MappedRegion",
    "NewRecord",
    "PlacedCopy",
    "PlacedTablet",
    "Placements",
    "ProtectionLost",
    "RegionMap",
    "RegionReport",
    "ReplayLost",
    "ReportedTablet",
    "RequestRefused",
    "Sexton",
    "StreamReport",
    "TooOld",
    "TopicEntry",
    "TopicSource",
    "Unreachable",
]
