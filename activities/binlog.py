"""Cut binlogs and list the backends that must delete, as activities. Each may be repeated: no record is cut twice."""

import logging
from typing import TYPE_CHECKING

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.kernel.live import Live
from sexton.replication.binlog.model import Backends, CutReport, WaitingOrder

if TYPE_CHECKING:
    from sexton.replication.binlog.binlogs import BinlogRuns

log = logging.getLogger(__name__)


class BinlogActivities:
    """The activities of one worker process."""

    def __init__(self, rounds: "Live[BinlogRuns]") -> None:
        self._rounds = rounds

    @activity.defn(no_thread_cancel_exception=True)
    def cut_binlogs(self, instance: str) -> CutReport:
        """Cut expired records, record the cuts in the replicas, and delete the rows of cut records."""
        with refusals(), AutoHeartbeat() as heart:
            log.info("binlog GC of %s begins", instance)
            report = self._rounds(instance).expire(instance, heart.heartbeat)
            numbers = (report.cut, report.records, report.held, report.waiting)
            text = "binlog GC of %s ends: %d logs cut, %d records deleted, %d blocked, %d waiting for approval%s"
            log.info(text, instance, *numbers, "; refused because of the clock" if report.refused else "")
            return report

    @activity.defn(no_thread_cancel_exception=True)
    def waiting_backends(self, order: WaitingOrder) -> Backends:
        """Return a page of the backends that have binlogs to delete."""
        with refusals():
            return self._rounds(order.instance).waiting(order)
