"""All stores of binlogs and replicas over one database, as workers, the API and the CLI use them."""

from sexton.database.engine import Database
from sexton.kernel.live import Live
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.binlog.port import RunPorts
from sexton.replication.binlog.rounds import BinlogRuns
from sexton.replication.binlog.sql.config import ConfigStore
from sexton.replication.binlog.sql.consumers import ConsumerStore
from sexton.replication.binlog.sql.cutting import Cutter
from sexton.replication.binlog.sql.records import RecordStore
from sexton.replication.binlog.sql.removing import Remover
from sexton.replication.binlog.sql.schedule import BinlogSchedule
from sexton.replication.binlog.sql.sending import Sender
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.model import ReplicaSettings
from sexton.replication.replicas.sql.placement import PlacementStore
from sexton.replication.replicas.sql.reports import ReportStore
from sexton.replication.replicas.sql.store import ReplicaStore


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
        self.live_rounds: Live[BinlogRuns] = self._settings.map(self._runs)
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
    def cutter(self) -> Cutter:
        """Cuts logs by the settings in force."""
        return Cutter(self._db, self.settings, self.controls)

    @property
    def reports(self) -> ReportStore:
        """The reports of backends, judged by the settings in force."""
        return ReportStore(self._db, self._replica_settings())

    @property
    def replicas(self) -> ReplicaStore:
        """The replicas, judged by the settings in force."""
        return ReplicaStore(self._db, self._replica_settings())

    @property
    def rounds(self) -> BinlogRuns:
        """The GC run, by the settings in force."""
        return self.live_rounds()

    def _runs(self, settings: BinlogSettings) -> BinlogRuns:
        schedule = BinlogSchedule(self._db, settings, self.controls)
        cutter = Cutter(self._db, settings, self.controls)
        ports = RunPorts(schedule, cutter, self.sender, self.remover, self.replicas, self.journal)
        return BinlogRuns(ports, settings)
