"""Binlogs of an instance, as activities. Every one may be repeated: what is cut is not cut again."""

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.replication.binlog.messages import Backends, WaitingOrder
from sexton.replication.binlog.model import CutReport
from sexton.replication.binlog.rounds import BinlogRuns


class BinlogActivities:
    """One instance per worker process."""

    def __init__(self, rounds: BinlogRuns) -> None:
        self._rounds = rounds

    @activity.defn(no_thread_cancel_exception=True)
    def cut_binlogs(self, instance: str) -> CutReport:
        """Cut what has expired, let copies know, and remove rows."""
        with refusals(), AutoHeartbeat() as heart:
            return self._rounds.expire(instance, heart.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def waiting_backends(self, order: WaitingOrder) -> Backends:
        """Return some backends, behind one, that have something to let go."""
        with refusals():
            return self._rounds.waiting(order)
