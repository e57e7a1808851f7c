"""A look at all binlogs of an instance: what a round's activity does, in this order, and again after a crash."""

import logging
from collections.abc import Callable, Sequence

from sexton.operators.controls.port import Halted, NotEnabled
from sexton.replication.binlog.messages import PAGE_BACKENDS, Backends, WaitingOrder
from sexton.replication.binlog.model import BinlogSettings, CutReport
from sexton.replication.binlog.port import BinlogSchedulePort, CutterPort, GivesUp, Removes, Sends, Trims

log = logging.getLogger(__name__)


class BinlogRuns:
    """The work of rounds."""

    def __init__(
        self,
        turns: BinlogSchedulePort,
        cutter: CutterPort,
        sender: Sends,
        remover: Removes,
        replicas: GivesUp,
        journal: Trims,
        terms: BinlogSettings,
    ) -> None:
        self._turns, self._cutter, self._sender, self._remover = turns, cutter, sender, remover
        self._replicas, self._journal, self._terms = replicas, journal, terms

    def expire(self, instance: str, heartbeat: Callable[[], None]) -> CutReport:
        """Cut what has expired, let copies know, and remove rows.

        Raises:
            UnknownInstance: no such instance.
            NotEnabled, Halted: nothing of it may go.
        """
        report, failed = CutReport(refused=self._turns.look(instance)), list[Exception]()
        if not report.refused:
            patient = self._turns.patient(instance)
            if patient:  # first: what no longer counts keeps nothing back in this very round
                report += CutReport(full_copy=self._replicas.give_up(instance))
            for name, tables in self._turns.logs(instance).items():
                try:
                    report += self._cut(instance, name, tables, heartbeat)
                except (NotEnabled, Halted):
                    raise
                except Exception as e:  # whatever it is, it keeps no other database from its cut
                    log.exception("binlogs of %s/%s were not cut", instance, name)
                    failed.append(e)
            self._journal.trim(instance, self._terms.hold_limit_seconds * 1000, heartbeat, patient=patient)
        self._sender.spread(instance, heartbeat)
        self._remover.remove(instance, heartbeat)
        _log(instance, report)
        if failed:
            raise failed[0]
        if not report.refused:
            self._turns.looked(instance, report.cut)
        return report

    def _cut(self, instance: str, name: str, tables: Sequence[str], heartbeat: Callable[[], None]) -> CutReport:
        """Cut a database's logs, some thousands of records at a time."""
        report, more = CutReport(), True
        while more:
            cut = self._cutter.cut(instance, name, tables)
            report, more = report + cut.model_copy(update={"more": False}), cut.more
            heartbeat()
        return report

    def waiting(self, order: WaitingOrder) -> Backends:
        """Return some backends, behind one, that have something to let go."""
        names = self._sender.waiting(order.instance, order.after, PAGE_BACKENDS + 1)
        return Backends(names=tuple(names[:PAGE_BACKENDS]), more=len(names) > PAGE_BACKENDS)


def _log(instance: str, report: CutReport) -> None:
    if report.refused:
        log.error("binlogs of %s: nothing was cut: %s", instance, report.refused)
    if report.waiting:
        log.error("binlogs of %s: %d cuts wait for approval: sexton binlog list", instance, report.waiting)
    if report.lost:
        log.error("binlogs of %s: %d consumers are LOST, and hold nothing any more", instance, report.lost)
    if report.full_copy:
        log.error("binlogs of %s: %d replicas are FULL_COPY_ONLY since now", instance, report.full_copy)
    if report.cut:
        log.info("binlogs of %s: %d logs cut, %d records", instance, report.cut, report.records)
