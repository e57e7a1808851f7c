"""Binlogs and replicas put together over one database: as workers, the API and the commands use them."""

from sexton.binlog.config import ConfigStore
from sexton.binlog.consumers import ConsumerStore
from sexton.binlog.cutting import Cutter
from sexton.binlog.model import Terms
from sexton.binlog.records import RecordStore
from sexton.binlog.removing import Remover
from sexton.binlog.rounds import Rounds
from sexton.binlog.sending import Sender
from sexton.binlog.turns import BinlogTurns
from sexton.control.store import ControlStore
from sexton.db.engine import Database
from sexton.journal.store import JournalStore
from sexton.replica.model import Terms as ReplicaTerms
from sexton.replica.placing import PlacementStore
from sexton.replica.reports import ReportStore
from sexton.replica.store import ReplicaStore


class Binlogs:
    """What there is to ask and to do."""

    def __init__(self, db: Database, terms: Terms, replica: ReplicaTerms, controls: ControlStore) -> None:
        self.terms, self.controls = terms, controls
        self.configs, self.records, self.consumers = ConfigStore(db), RecordStore(db), ConsumerStore(db)
        self.placements, self.reports, self.replicas = (
            PlacementStore(db),
            ReportStore(db, replica),
            ReplicaStore(db, replica),
        )
        self.journal, self.sender, self.turns = JournalStore(db), Sender(db, controls), BinlogTurns(db, terms, controls)
        self.cutter, self.remover = Cutter(db, terms, controls), Remover(db)
        self.rounds = Rounds(self.turns, self.cutter, self.sender, self.remover, self.replicas, self.journal, terms)
