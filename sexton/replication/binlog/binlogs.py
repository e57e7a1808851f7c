"""All stores of binlogs and replicas over one database, as workers, the API and the CLI use them; and the GC run."""

import logging
from collections.abc import Callable
from itertools import islice

from sexton.database.engine import Database
from sexton.kernel.live import Live
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog import policy
from sexton.replication.binlog.model import (
    PAGE_BACKENDS,
    Backends,
    BinlogSettings,
    CutReport,
    LogExplanation,
    RetainingCopy,
    WaitingOrder,
)
from sexton.replication.binlog.sql import rows
from sexton.replication.binlog.sql.config import BinlogSchedule, ConfigStore
from sexton.replication.binlog.sql.consumers import ConsumerStore
from sexton.replication.binlog.sql.cutting import Cutter, Remover
from sexton.replication.binlog.sql.rows import find_last_run
from sexton.replication.binlog.sql.sending import RecordStore, Sender
from sexton.replication.errors import UnknownLog
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.model import ReplicaSettings
from sexton.replication.replicas.policy import describe_faults
from sexton.replication.replicas.sql import figures
from sexton.replication.replicas.sql.placement import PlacementStore
from sexton.replication.replicas.sql.store import ReplicaStore, ReportStore

log = logging.getLogger(__name__)
MAX_LINES = 100
MAX_NAMED_COPIES = 5


class BinlogService:
    """The stores of one deployment, and the GC run that uses them."""

    def __init__(
        self,
        db: Database,
        settings: BinlogSettings | Live[BinlogSettings],
        replica_settings: ReplicaSettings | Live[ReplicaSettings],
        controls: ControlStore,
    ) -> None:
        self._db, self.controls = db, controls
        self._settings, self._replica_settings = Live.of(settings), Live.of(replica_settings)
        self.configs = ConfigStore(db)
        self.records = RecordStore(db)
        self.consumers = ConsumerStore(db)
        self.placements = PlacementStore(db)
        self.journal = JournalStore(db)
        self.sender = Sender(db, controls)
        self.remover = Remover(db)
        self.live_rounds: Live[BinlogRuns] = self._settings.map(lambda settings: BinlogRuns(db, self, settings))
        """Runs with the settings in force: each run keeps those with which it begins."""

    @property
    def settings(self) -> BinlogSettings:
        """The settings in force."""
        return self._settings()

    @property
    def schedule(self) -> BinlogSchedule:
        """When each instance is due, by the settings in force."""
        return BinlogSchedule(self._db, self.settings, self.controls)

    @property
    def reports(self) -> ReportStore:
        """The reports of backends, judged by the settings in force."""
        return ReportStore(self._db, self._replica_settings())

    @property
    def replicas(self) -> ReplicaStore:
        """The replicas, judged by the settings in force."""
        return ReplicaStore(self._db, self._replica_settings())

    def explain(self, instance: str, name: str, table: str = "") -> LogExplanation:
        """Decide as a cut would, and explain what it cuts now, and what blocks the rest. Raises ``UnknownLog``."""
        db, settings = self._db, self.settings
        with db.snapshot() as c:
            now, logs = db.now(c), rows.read_logs(db, c, instance, name)
            own_log, log = logs.get(""), logs.get(table)
            if own_log is None or log is None:
                raise UnknownLog(rows.log_name(name, table))
            lines = tuple(islice(Cutter(db, settings, self.controls).preview(c, instance, name, table), MAX_LINES))
            look = find_last_run(db, c, instance)
            try:
                self.controls.check_in(c, instance)
                halted = ""
            except (Halted, NotEnabled) as e:
                halted = str(e)
            consumers = rows.read_consumers(db, c, instance, name)
            scope = (db, c, instance, name, table)
            standings = figures.backend_standings(*scope)
            retaining = figures.retaining_replicas(*scope, limit=MAX_NAMED_COPIES)
            # Those that are cut by themselves: the database's own log, or those of its tables.
            cut_logs = sum(each.dropped_at is None and bool(each.tbl) is not own_log.enabled for each in logs.values())
            return LogExplanation(
                instance=instance,
                db=name,
                tbl=table,
                own=own_log,
                dropped_at=log.dropped_at if log.dropped_at is not None else own_log.dropped_at,
                lines=lines,
                logs=len(lines) if table else cut_logs,
                halted=halted,
                clock=policy.clock_problem(look.checked_at, now, settings),
                look=look,
                consumers=tuple(reader for reader in consumers if own_log.enabled or table in ("", reader.tbl)),
                lost_after_seconds=settings.hold_limit_seconds,
                backends=tuple(standing for standing in standings if standing.behind),
                holders=tuple(figures.retaining_by_backend(*scope)),
                named=tuple(
                    RetainingCopy(
                        replica=replica, why=describe_faults(replica, now) or f"needs version {replica.needs} and above"
                    )
                    for replica in retaining
                ),
                now=now,
            )


class BinlogRuns:
    """One run of binlog GC over an instance: the order of its steps. Running it again, also after a crash, is safe."""

    def __init__(self, db: Database, service: "BinlogService", settings: BinlogSettings) -> None:
        """``settings``: the run keeps them, whatever is in force later."""
        self._service, self._settings = service, settings
        self._schedule = BinlogSchedule(db, settings, service.controls)
        self._cutter = Cutter(db, settings, service.controls)

    def expire(self, instance: str, heartbeat: Callable[[], None]) -> CutReport:
        """Cut expired records, record the cuts in the replicas, and delete the rows of cut records.

        Raises:
            UnknownInstance: no such instance.
            NotEnabled, Halted: the controls of the instance forbid deletion.
        """
        report = CutReport(refused=self._schedule.begin_run(instance))
        errors: list[Exception] = []
        if not report.refused:
            steady = self._schedule.is_steady(instance)
            if steady:  # before the cuts: a replica that no longer counts blocks nothing in this very run
                report += CutReport(full_copy=self._service.replicas.give_up(instance))
            cuts, errors = self._cut_all(instance, heartbeat)
            report += cuts
            self._service.journal.trim(instance, self._settings.hold_limit_seconds * 1000, heartbeat, steady=steady)
        self._service.sender.propagate(instance, heartbeat)
        self._service.remover.remove(instance, heartbeat)
        _log(instance, report)
        if errors:
            raise errors[0]
        if not report.refused:
            self._schedule.finish_run(instance, report.cut)
        return report

    def _cut_all(self, instance: str, heartbeat: Callable[[], None]) -> tuple[CutReport, list[Exception]]:
        """Cut the logs of every database; one that fails does not stop the others."""
        report, errors = CutReport(), list[Exception]()
        for name, tables in self._schedule.logs_to_cut(instance).items():
            try:
                of_database, more = CutReport(), True
                while more:  # some thousands of records at a time
                    cut = self._cutter.cut(instance, name, tables)
                    of_database += cut.model_copy(update={"more": False})
                    more = cut.more
                    heartbeat()
                report += of_database
            except (NotEnabled, Halted):
                raise
            except Exception as e:  # any error: it must not block the cut of another database
                log.exception("binlogs of %s/%s were not cut", instance, name)
                errors.append(e)
        return report, errors

    def waiting(self, order: WaitingOrder) -> Backends:
        """Return a page of the backends that have binlogs to delete."""
        names = self._service.sender.waiting(order.instance, order.after, PAGE_BACKENDS + 1)
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
