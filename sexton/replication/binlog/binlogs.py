"""All stores of binlogs and replicas over one database, as workers, the API and the CLI use them."""

from sexton.database.engine import Database
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
        self, db: Database, settings: BinlogSettings, replica_settings: ReplicaSettings, controls: ControlStore
    ) -> None:
        self.settings, self.controls = settings, controls
        self.configs = ConfigStore(db)
        self.records = RecordStore(db)
        self.consumers = ConsumerStore(db)
        self.placements = PlacementStore(db)
        self.reports = ReportStore(db, replica_settings)
        self.replicas = ReplicaStore(db, replica_settings)
        self.journal = JournalStore(db)
        self.sender = Sender(db, controls)
        self.schedule = BinlogSchedule(db, settings, controls)
        self.cutter = Cutter(db, settings, controls)
        self.remover = Remover(db)
        ports = RunPorts(self.schedule, self.cutter, self.sender, self.remover, self.replicas, self.journal)
        self.rounds = BinlogRuns(ports, settings)
