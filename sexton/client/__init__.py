"""The client for programs: ``Sexton`` and ``AsyncSexton``, for meta services, nodes of regions, and sync jobs.

``with client.protect(...)`` protects objects while they are copied, renews the protection in the background, and
raises ``ProtectionLost`` from ``check`` and at its end when a renewal fails. ``with client.replay(...)`` does the same
for the entries that a region reads of its topic. ``client.follow`` applies the journal of binlogs and replicas to a
``FollowerState``. The values that the methods take are exported here too.
"""

from sexton.client.api_call import JournalAhead, ProtectionLost, ReplayLost, RequestRefused, TooOld, Unreachable
from sexton.client.clients import AsyncSexton, Following, Sexton
from sexton.client.replaying import TopicEntry, TopicSource
from sexton.kernel.signatures import SIGNATURE_HEADER, is_signed
from sexton.operations.binlogs import NewRecord
from sexton.operations.replicas import CutsDone
from sexton.operations.topics import Heartbeat
from sexton.protection.filter import Filter
from sexton.protection.model import Item
from sexton.replication.agent.model import CutDone
from sexton.replication.journal.replaying import FollowerState
from sexton.replication.replicas.model import Copy, Placements, ReplicaReport, Tablet, TabletReport
from sexton.wal.model import Facts
from sexton.wal.policy import LeaderReport, RegionDrop, RegionMap, RegionMapping, RegionMove, Stream

__all__ = [
    "SIGNATURE_HEADER",
    "AsyncSexton",
    "Copy",
    "CutDone",
    "CutsDone",
    "Facts",
    "Filter",
    "FollowerState",
    "Following",
    "Heartbeat",
    "Item",
    "JournalAhead",
    "LeaderReport",
    "NewRecord",
    "Placements",
    "ProtectionLost",
    "RegionDrop",
    "RegionMap",
    "RegionMapping",
    "RegionMove",
    "ReplayLost",
    "ReplicaReport",
    "RequestRefused",
    "Sexton",
    "Stream",
    "Tablet",
    "TabletReport",
    "TooOld",
    "TopicEntry",
    "TopicSource",
    "Unreachable",
    "is_signed",
]
