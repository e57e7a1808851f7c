"""Binlogs and replicas put together over one database: as workers, the API and the commands use them."""

from sexton.database.engine import Database
from sexton.operators.controls.store import ControlStore
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.binlog.rounds import BinlogRuns
from sexton.replication.binlog.sql.config import ConfigStore
from sexton.replication.binlog.sql.consumers import ConsumerStore
from sexton.replication.binlog.sql.cutting import Cutter
from sexton.replication.binlog.sql.records import RecordStore
from sexton.replication.binlog.sql.removing import Remover
from sexton.replication.binlog.sql.schedule import BinlogSchedule
from sexton.replication.binlog.sql.sending import Sender
from sexton.replication.journal.store import JournalStore
from sexton.replication.replicas.model import ReplicaSettings as ReplicaTerms
from sexton.replication.replicas.sql.placement import PlacementStore
from sexton.replication.replicas.sql.reports import ReportStore
from sexton.replication.replicas.sql.store import ReplicaStore


class BinlogService:
    """What there is to ask and to do."""

    def __init__(self, db: Database, terms: BinlogSettings, replica: ReplicaTerms, controls: ControlStore) -> None:
        self.terms, self.controls = terms, controls
        self.configs, self.records, self.consumers = ConfigStore(db), RecordStore(db), ConsumerStore(db)
        self.placements, self.reports, self.replicas = (
            PlacementStore(db),
            ReportStore(db, replica),
            ReplicaStore(db, replica),
        )
        self.journal, self.sender, self.turns = (
            JournalStore(db),
            Sender(db, controls),
            BinlogSchedule(db, terms, controls),
        )
        self.cutter, self.remover = Cutter(db, terms, controls), Remover(db)
        self.rounds = BinlogRuns(self.turns, self.cutter, self.sender, self.remover, self.replicas, self.journal, terms)
