"""Workflows: plumbing only. ``ALL`` is what a control worker serves."""

from workflows.binlog import GcBinlog
from workflows.check import CheckInstance
from workflows.purge import PurgeWal
from workflows.purges import PurgeWalRound
from workflows.recycle import RecycleInstance
from workflows.tick import RecycleTick

ALL = [RecycleInstance, RecycleTick, CheckInstance, PurgeWal, PurgeWalRound, GcBinlog]
