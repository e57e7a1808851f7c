"""The stores of binlogs and replicas over one database, and what a test does with them in one line."""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.replication.binlog.binlogs import BinlogService
from sexton.replication.binlog.model import BinlogSettings, LogRetention, CutDone, CutPage, CutReport, Log, Record, StoreResult
from sexton.replication.journal.model import JournalEntry
from sexton.replication.replicas.model import (
    Copy,
    Placement,
    Replica,
    ReplicaReport,
    ReportReceipt,
    Tablet,
    TabletReport,
)
from sexton.replication.replicas.model import ReplicaSettings as ReplicaTerms

SHOP, DB = "shop", "sales"
INTERVAL = 313
STEP = 600
TERMS, REPLICA_TERMS = BinlogSettings(), ReplicaTerms()


def upsert(**versions: Mapping[str, int]) -> str:
    """Return the data of an UPSERT: table → partition → version."""
    records = {
        table: {"partitionRecords": [{"partitionId": part, "version": v} for part, v in its.items()]}
        for table, its in versions.items()
    }
    return json.dumps({"tableRecords": records})


class World:
    """One instance that is enabled."""

    def __init__(self, db: Database, terms: BinlogSettings = TERMS, replica: ReplicaTerms = REPLICA_TERMS) -> None:
        self.db = db
        registry = Registry(db)
        registry.add_instance(SHOP)
        registry.enable(SHOP)
        self.controls = ControlStore(db)
        self.b = BinlogService(db, terms, replica, self.controls)
        self._sequence = 0

    @property
    def now(self) -> int:
        """The time, in ms."""
        with self.db.read() as c:
            return self.db.now(c)

    def later(self, seconds: int) -> None:
        """Let time pass."""
        schema.move_clock(self.db, seconds)

    def keep(
        self, ttl: int | None = None, db: str = DB, table: str = "", from_seq: int = 0, **more: int | bool | None
    ) -> Log:
        """Keep a log for so many seconds; None: for ever."""
        return self.b.configs.put(SHOP, db, table, LogRetention(ttl_seconds=ttl, **more), from_seq)  # type: ignore[arg-type]

    def commit(
        self, seq: int, at: int | None = None, db: str = DB, tables: Sequence[str] = (), **versions: Mapping[str, int]
    ) -> StoreResult:
        """Store a record; ``at``: when, in ms, None: now. With versions it is an UPSERT of those tables."""
        named = tuple(tables or versions)
        record = Record(commit_seq=seq, timestamp=self.now if at is None else at, tables=named, type="ALTER")
        if versions:
            record = record.model_copy(update={"type": "UPSERT", "data": upsert(**versions)})
        return self.b.records.add(SHOP, db, [record])

    def steadily(self, seconds: int) -> CutReport:
        """Let time pass, with looks all the while; return the last."""
        for _ in range(-(-seconds // STEP)):
            self.later(STEP)
            report = self.look()
        return report

    def look(self) -> CutReport:
        """Do what a round's activity does."""
        return self.b.rounds.expire(SHOP, lambda: None)

    def seqs(self, table: str = "", db: str = DB, after: int | None = None) -> list[int]:
        """Return the records that can be read."""
        at = self.log(table, db).floor if after is None else after
        return [r.commit_seq for r in self.b.records.read(SHOP, db, table, at).records]

    def log(self, table: str = "", db: str = DB) -> Log:
        """Return a log."""
        return next(its for its in self.b.configs.logs(SHOP) if (its.db, its.tbl) == (db, table))

    def journal(self, op: int | None = None) -> list[JournalEntry]:
        """Return all entries, or those of one kind."""
        found = self.b.journal.read(SHOP, 0).entries
        return [e for e in found if op is None or e.op == op]

    def stored(self) -> tuple[int, int, int]:
        """Return how many rows there are of records, of their places in logs, and of versions."""
        t = self.db.t
        with self.db.read() as c:
            b, of, part = (len(c.execute(select(table)).all()) for table in (t.binlog, t.binlog_table_record, t.binlog_partition_version))
            return b, of, part

    def place(self, tablet: str, *backends: str, part: str = "p1", table: str = "orders", db: str = DB) -> None:
        """Place a tablet's copies, one of uid ``TABLET.BACKEND`` on each backend."""
        copies = tuple(Copy(backend=b, uid=f"{tablet}.{b}") for b in backends)
        its = Tablet(tablet=tablet, part=part, copies=copies)
        self.b.placements.place(SHOP, Placement(db=db, table=table, tablets=(its,)))

    def report(self, backend: str, *tablets: TabletReport, boot: int = 1, sequence: int | None = None) -> ReportReceipt:
        """Let a backend report."""
        self._sequence += 1
        order = ReplicaReport(boot=boot, sequence=self._sequence if sequence is None else sequence, tablets=tablets)
        return self.b.reports.accept(SHOP, backend, order)

    def well(self, tablet: str, backend: str, version: int) -> ReportReceipt:
        """Let a backend report that a copy has all up to a version."""
        return self.report(backend, TabletReport(uid=f"{tablet}.{backend}", ranges=((0, version),)))

    def replica(self, tablet: str, backend: str) -> Replica:
        """Return a copy as it is known."""
        found, _ = self.b.replicas.tablet(SHOP, tablet)
        return next(r for r in found if r.backend == backend)

    def cuts(self, backend: str, after: str = "", limit: int = 1_000) -> dict[str, int]:
        """Return what a backend is granted: uid → version."""
        return {its.uid: its.version for its in self.page(backend, after, limit).cuts}

    def page(self, backend: str, after: str = "", limit: int = 1_000) -> CutPage:
        """Let a backend pull."""
        return self.b.sender.page(SHOP, backend, after, limit)

    def done(self, backend: str, **versions: int) -> None:
        """Let a backend say what is gone: uid (with ``_`` for the dot) → version."""
        told = [CutDone(uid=uid.replace("_", "."), version=v) for uid, v in versions.items()]
        self.b.sender.acknowledge(SHOP, backend, told)
