"""An instance with binlogs and replicas, with one-line operations for tests."""

import json
from collections.abc import Mapping, Sequence
from itertools import count

from sqlalchemy import select

from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.replication.agent.model import CutDone
from sexton.replication.binlog.binlogs import BinlogService
from sexton.replication.binlog.model import (
    BinlogSettings,
    CutPage,
    CutReport,
    Log,
    LogRetention,
    StoredRecord,
    StoreResult,
)
from sexton.replication.journal.model import JournalEntry
from sexton.replication.replicas.model import (
    Copy,
    Placement,
    Replica,
    ReplicaReport,
    ReplicaSettings,
    ReportReceipt,
    Tablet,
    TabletReport,
)

SHOP, DB = "shop", "sales"
NUMBERS = count(1)
INTERVAL = 313
"""Seconds between two runs of a round, or slightly more."""
STEP = 600
"""Seconds that ``pass_time`` lets pass at once: less than the clock check refuses."""
BINLOG_SETTINGS, REPLICA_SETTINGS = BinlogSettings(), ReplicaSettings()


def upsert(**versions: Mapping[str, int]) -> str:
    """Return the data of an UPSERT: table → partition → version."""
    records = {
        table: {"partitionRecords": [{"partitionId": part, "version": v} for part, v in by_part.items()]}
        for table, by_part in versions.items()
    }
    return json.dumps({"tableRecords": records})


class BinlogInstance:
    """An enabled instance with its stores of binlogs and replicas; others may share its database."""

    def __init__(
        self,
        db: Database,
        settings: BinlogSettings = BINLOG_SETTINGS,
        replica: ReplicaSettings = REPLICA_SETTINGS,
        instance: str = SHOP,
    ) -> None:
        self.db, self.instance = db, instance
        registry = Registry(db)
        registry.add_instance(instance)
        registry.enable(instance)
        self.controls = ControlStore(db)
        self.service = BinlogService(db, settings, replica, self.controls)
        self._sequence = 0

    @property
    def now(self) -> int:
        """The database's time, in ms since 1970."""
        with self.db.read() as c:
            return self.db.now(c)

    def later(self, seconds: int) -> None:
        """Move the database's clock forward."""
        schema.move_clock(self.db, seconds)

    def configure_log(
        self, ttl: int | None = None, db: str = DB, table: str = "", from_seq: int = 0, **more: int | bool | None
    ) -> Log:
        """Switch a log on with a TTL in seconds (None: unlimited); return it as it is stored."""
        return self.service.configs.put(self.instance, db, table, LogRetention(ttl_seconds=ttl, **more), from_seq)  # type: ignore[arg-type]

    def commit(
        self, seq: int, at: int | None = None, db: str = DB, tables: Sequence[str] = (), **versions: Mapping[str, int]
    ) -> StoreResult:
        """Store a record of a time in ms (None: now); return its receipt. With versions it is an UPSERT."""
        table_names = tuple(tables or versions)
        record = StoredRecord(
            commit_seq=seq, timestamp=self.now if at is None else at, tables=table_names, type="ALTER"
        )
        if versions:
            record = record.model_copy(update={"type": "UPSERT", "data": upsert(**versions)})
        return self.service.records.add(self.instance, db, [record])

    def pass_time(self, seconds: int) -> CutReport:
        """Move the clock in steps with a run after each; return the report of the last."""
        for _ in range(-(-seconds // STEP)):
            report = self.cut_expired(STEP)
        return report

    def cut_expired(self, after: int = 0) -> CutReport:
        """Cut expired records after so many seconds, as a round's activity does; return its report."""
        if after:
            self.later(after)
        return self.service.live_rounds().expire(self.instance, lambda: None)

    def readable_seqs(self, table: str = "", db: str = DB, after: int | None = None) -> list[int]:
        """Return the commit numbers of the records that can be read."""
        start = self.log(table, db).floor if after is None else after
        return [r.commit_seq for r in self.service.records.read(self.instance, db, table, start).records]

    def log(self, table: str = "", db: str = DB) -> Log:
        """Return a log as it is stored."""
        return next(log for log in self.service.configs.logs(self.instance) if (log.db, log.tbl) == (db, table))

    def journal(self, op: int | None = None) -> list[JournalEntry]:
        """Return all entries of the journal, or those of one kind."""
        entries = self.service.journal.read(self.instance, 0).entries
        return [e for e in entries if op is None or e.op == op]

    def row_counts(self) -> tuple[int, int, int]:
        """Return the numbers of rows of records, of their places in logs, and of versions."""
        t = self.db.t
        with self.db.read() as c:
            records, places, versions = (
                len(c.execute(select(table).where(table.c.instance == self.instance)).all())
                for table in (t.binlog, t.binlog_table_record, t.binlog_partition_version)
            )
            return records, places, versions

    def place(
        self,
        tablet: str,
        *backends: str,
        part: str = "p1",
        table: str = "orders",
        db: str = DB,
        schema_hash: int | None = None,
    ) -> None:
        """Place a tablet's copies, one of uid ``TABLET.BACKEND`` on each backend."""
        copies = tuple(Copy(backend=b, uid=f"{tablet}.{b}") for b in backends)
        placed = Tablet(tablet=tablet, part=part, copies=copies, schema_hash=schema_hash)
        self.service.placements.place(self.instance, Placement(db=db, table=table, tablets=(placed,)))

    def report(self, backend: str, *tablets: TabletReport, boot: int = 1, sequence: int | None = None) -> ReportReceipt:
        """Send a report of a backend; return its receipt."""
        self._sequence += 1
        order = ReplicaReport(boot=boot, sequence=self._sequence if sequence is None else sequence, tablets=tablets)
        return self.service.reports.accept(self.instance, backend, order)

    def report_whole(self, tablet: str, backend: str, version: int) -> ReportReceipt:
        """Report that a backend's copy has all versions up to one; return the receipt."""
        return self.report(backend, TabletReport(uid=f"{tablet}.{backend}", ranges=((0, version),)))

    def replica(self, tablet: str, backend: str) -> Replica:
        """Return a copy as it is stored."""
        replicas, _ = self.service.replicas.tablet(self.instance, tablet)
        return next(r for r in replicas if r.backend == backend)

    def granted_cuts(self, backend: str, after: str = "", limit: int = 1_000) -> dict[str, int]:
        """Pull a backend's cuts and return them: uid → version."""
        return {its.uid: its.version for its in self.pull_cuts(backend, after, limit).cuts}

    def pull_cuts(self, backend: str, after: str = "", limit: int = 1_000) -> CutPage:
        """Pull a page of a backend's cuts and return it."""
        return self.service.sender.page(self.instance, backend, after, limit)

    def acknowledge_cuts(self, backend: str, **versions: int) -> None:
        """Acknowledge a backend's removed versions: uid (with ``_`` for the dot) → version."""
        done = [CutDone(uid=uid.replace("_", "."), version=v) for uid, v in versions.items()]
        self.service.sender.acknowledge(self.instance, backend, done)


def new_instance(
    db: Database, settings: BinlogSettings = BINLOG_SETTINGS, replica: ReplicaSettings = REPLICA_SETTINGS
) -> BinlogInstance:
    """Return an instance of a name of its own, in a database that has others."""
    return BinlogInstance(db, settings, replica, f"{SHOP}-{next(NUMBERS)}")
