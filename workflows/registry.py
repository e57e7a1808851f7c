"""All workflows: a control worker serves ``ALL``."""

from workflows.binlog import GcBinlog
from workflows.check import CheckInstance
from workflows.purge import PurgeWal
from workflows.purge_round import PurgeWalRound
from workflows.recycle import RecycleInstance
from workflows.tick import RecycleTick

ALL = [RecycleInstance, RecycleTick, CheckInstance, PurgeWal, PurgeWalRound, GcBinlog]
