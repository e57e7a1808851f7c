"""One run of binlog GC over an instance: the order of its steps. Running it again, also after a crash, is safe."""

import logging
from collections.abc import Callable, Sequence

from sexton.operators.controls.model import Halted, NotEnabled
from sexton.replication.binlog.messages import PAGE_BACKENDS, Backends, WaitingOrder
from sexton.replication.binlog.model import BinlogSettings, CutReport
from sexton.replication.binlog.port import RunPorts

log = logging.getLogger(__name__)


class BinlogRuns:
    """Runs binlog GC."""

    def __init__(self, ports: RunPorts, settings: BinlogSettings) -> None:
        self._ports, self._settings = ports, settings

    def expire(self, instance: str, heartbeat: Callable[[], None]) -> CutReport:
        """Cut expired records, record the cuts in the replicas, and delete the rows of cut records.

        Raises:
            UnknownInstance: no such instance.
            NotEnabled, Halted: the controls of the instance forbid deletion.
        """
        report = CutReport(refused=self._ports.schedule.begin_run(instance))
        errors: list[Exception] = []
        if not report.refused:
            steady = self._ports.schedule.is_steady(instance)
            if steady:  # before the cuts: a replica that no longer counts blocks nothing in this very run
                report += CutReport(full_copy=self._ports.replicas.give_up(instance))
            cuts, errors = self._cut_all(instance, heartbeat)
            report += cuts
            self._ports.journal.trim(instance, self._settings.hold_limit_seconds * 1000, heartbeat, steady=steady)
        self._ports.sender.propagate(instance, heartbeat)
        self._ports.remover.remove(instance, heartbeat)
        _log(instance, report)
        if errors:
            raise errors[0]
        if not report.refused:
            self._ports.schedule.finish_run(instance, report.cut)
        return report

    def _cut_all(self, instance: str, heartbeat: Callable[[], None]) -> tuple[CutReport, list[Exception]]:
        """Cut the logs of every database; one that fails does not stop the others."""
        report, errors = CutReport(), list[Exception]()
        for name, tables in self._ports.schedule.logs_to_cut(instance).items():
            try:
                report += self._cut_database(instance, name, tables, heartbeat)
            except (NotEnabled, Halted):
                raise
            except Exception as e:  # any error: it must not block the cut of another database
                log.exception("binlogs of %s/%s were not cut", instance, name)
                errors.append(e)
        return report, errors

    def _cut_database(
        self, instance: str, name: str, tables: Sequence[str], heartbeat: Callable[[], None]
    ) -> CutReport:
        """Cut a database's logs, some thousands of records at a time."""
        report, more = CutReport(), True
        while more:
            cut = self._ports.cutter.cut(instance, name, tables)
            report += cut.model_copy(update={"more": False})
            more = cut.more
            heartbeat()
        return report

    def waiting(self, order: WaitingOrder) -> Backends:
        """Return a page of the backends that have binlogs to delete."""
        names = self._ports.sender.waiting(order.instance, order.after, PAGE_BACKENDS + 1)
        return Backends(names=tuple(names[:PAGE_BACKENDS]), more=len(names) > PAGE_BACKENDS)


def _log(instance: str, report: CutReport) -> None:
    if report.refused:
        log.error("binlogs of %s: nothing was cut: %s", instance, report.refused)
    if report.waiting:
        log.error("binlogs of %s: %d cuts wait for approval: sexton binlog list", instance, report.waiting)
    if report.lost:
        log.error("binlogs of %s: %d consumers became LOST, and no longer block a cut", instance, report.lost)
    if report.full_copy:
        log.error("binlogs of %s: %d replicas became FULL_COPY_ONLY", instance, report.full_copy)
    if report.cut:
        log.info("binlogs of %s: %d logs cut, %d records", instance, report.cut, report.records)
