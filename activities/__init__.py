"""Activities: the steps that workflows call, as methods of classes with injected ports."""

from collections.abc import Callable, Sequence
from typing import Any

from activities.backend import BackendActivities
from activities.binlog import BinlogActivities
from activities.check import CheckActivities
from activities.recycle import RecycleActivities
from activities.tick import SparkActivities, TickActivities
from activities.wal import WalActivities

__all__ = [
    "BackendActivities",
    "BinlogActivities",
    "CheckActivities",
    "RecycleActivities",
    "SparkActivities",
    "TickActivities",
    "WalActivities",
    "build",
]


def build(
    recycle: RecycleActivities,
    tick: TickActivities,
    check: CheckActivities,
    spark: SparkActivities,
    wal: WalActivities,
    binlog: BinlogActivities,
) -> Sequence[Callable[..., Any]]:
    """Return the activities that a control worker registers."""
    return [
        recycle.open_round,
        recycle.abandon_round,
        recycle.release_lease,
        recycle.make_plan,
        recycle.find_plan,
        recycle.adopt_claimed,
        recycle.recycle_range,
        recycle.close_round,
        tick.due_instances,
        tick.nudge,
        tick.read_progress,
        check.begin_check,
        check.conclude_check,
        spark.find_spark,
        wal.review_topics,
        binlog.cut_binlogs,
        binlog.waiting_backends,
    ]
