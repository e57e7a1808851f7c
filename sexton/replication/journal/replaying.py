"""Apply journal entries to the state of a follower. Pure; it never fails, and applying an entry twice changes nothing.

A follower adds its own records and replicas: they are not in the journal. Entries about logs, tables and tablets that
the follower does not have are remembered until it has them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sexton.replication.journal.model import (
    JournalEntry,
    JournalSnapshot,
    Op,
    ReplicaOutcome,
    ReportKind,
    Tombstone,
    parse_outcomes,
    parse_tombstones,
)

NO_VERSION = -1
"""No version has failed."""


@dataclass
class ReplicaHealth:
    """The health of one replica."""

    bad: bool = False
    failed: int = NO_VERSION


@dataclass
class DatabaseBinlogs:
    """The binlogs of one database. All records up to a watermark are cut, whether the follower has them or not."""

    records: dict[int, frozenset[str]] = field(default_factory=dict)
    """Record number → the tables that the record names."""
    watermark: int = 0
    tables: dict[str, int] = field(default_factory=dict)
    """Table → the watermark of its log."""
    dropped: bool = False
    gone: set[str] = field(default_factory=set)
    """Tables that were dropped."""

    def log(self, table: str = "") -> list[int]:
        """Return the records of the database's log, or of a table's, in their order."""
        if self.dropped or table in self.gone:
            return []
        watermark = self.tables.get(table, 0) if table else self.watermark
        in_log = (seq for seq, tables in self.records.items() if not table or table in tables)
        return sorted(seq for seq in in_log if seq > watermark)

    def apply_tombstone(self, tombstone: Tombstone) -> None:
        """Raise watermarks, and forget records that are in no log any longer."""
        cut_tables: Iterable[str] = tombstone.tables or ()
        if tombstone.database:
            self.watermark = max(self.watermark, tombstone.seq)
            self.dropped |= tombstone.dropped
            if tombstone.tables is None:
                cut_tables = {table for tables in self.records.values() for table in tables}
        for table in cut_tables:
            self.tables[table] = max(self.tables.get(table, 0), tombstone.seq)
            if tombstone.dropped:
                self.gone.add(table)
        # A table's records expire by themselves only if its database has no log; a drop tells nothing about that.
        no_database_log = not tombstone.database and not tombstone.dropped
        self.records = {
            seq: tables
            for seq, tables in self.records.items()
            if not self.is_cut(seq, tables, no_database_log=no_database_log)
        }

    def is_cut(self, seq: int, tables: frozenset[str], *, no_database_log: bool) -> bool:
        """Tell whether a record, which names these tables, is in no log any longer.

        ``no_database_log``: whether the database is known to have no log of its own.
        """
        if self.dropped:
            return True
        cut_in_tables = all(seq <= self.tables.get(table, 0) for table in tables)
        return cut_in_tables and (seq <= self.watermark or (no_database_log and bool(tables)))


class FollowerState:
    """A follower's state. ``applied``: the last entry that is in it."""

    def __init__(self) -> None:
        self.applied = 0
        self.databases: dict[str, DatabaseBinlogs] = {}
        self.health: dict[tuple[str, str], ReplicaHealth] = {}
        """(tablet, backend) → the health of the replica."""

    def record(self, db: str, seq: int, tables: Iterable[str]) -> None:
        """Add a record, unless it is cut already."""
        binlogs, record_tables = self.databases.setdefault(db, DatabaseBinlogs()), frozenset(tables)
        if not binlogs.is_cut(seq, record_tables, no_database_log=False):
            binlogs.records[seq] = record_tables

    def place(self, tablet: str, backend: str) -> None:
        """Add a replica of a tablet on a backend; repeatable."""
        self.health.setdefault((tablet, backend), ReplicaHealth())

    def displace(self, tablet: str, backend: str) -> None:
        """Remove the replica of a tablet from a backend; repeatable."""
        self.health.pop((tablet, backend), None)

    def load_snapshot(self, at: JournalSnapshot) -> None:
        """Load a snapshot in place of all entries up to its number."""
        self.databases = {db: DatabaseBinlogs(records=binlogs.records) for db, binlogs in self.databases.items()}
        for mark in at.marks:
            tables = (mark.tbl,) if mark.tbl else ()
            tombstone = Tombstone(database=not mark.tbl, db=mark.db, tables=tables, seq=mark.seq, dropped=mark.dropped)
            self._apply_tombstone(tombstone)
        self.health = {key: ReplicaHealth() for key in self.health}
        for replica in at.replicas:
            self._apply_outcome(replica.backend, replica.outcome)
        self.applied = at.seq

    def apply(self, entry: JournalEntry) -> bool:
        """Apply one entry; return False if it was applied before."""
        if entry.seq <= self.applied:
            return False
        if entry.op == Op.GC_BINLOG:
            for tombstone in parse_tombstones(entry.body):
                self._apply_tombstone(tombstone)
        elif entry.op in (Op.BACKEND_REPLICAS_INFO, Op.BACKEND_TABLETS_INFO):
            backend, outcomes = parse_outcomes(entry.op, entry.body)
            for outcome in outcomes:
                self._apply_outcome(backend, outcome)
        self.applied = entry.seq
        return True

    def logs(self) -> Mapping[str, Mapping[str, list[int]]]:
        """Return all logs that have records: database → table (empty: the database's own log) → record numbers."""
        logs = {}
        for db, binlogs in self.databases.items():
            tables = {"", *(table for record_tables in binlogs.records.values() for table in record_tables)}
            numbers = {table: binlogs.log(table) for table in sorted(tables)}
            with_records = {table: seqs for table, seqs in numbers.items() if seqs}
            if with_records:
                logs[db] = with_records
        return logs

    def unhealthy(self) -> Mapping[tuple[str, str], ReplicaHealth]:
        """Return the unhealthy replicas by (tablet, backend)."""
        return {key: health for key, health in self.health.items() if health != ReplicaHealth()}

    def _apply_tombstone(self, tombstone: Tombstone) -> None:
        self.databases.setdefault(tombstone.db, DatabaseBinlogs()).apply_tombstone(tombstone)

    def _apply_outcome(self, backend: str, outcome: ReplicaOutcome) -> None:
        health = self.health.get((outcome.tablet, backend))
        if health is None:
            return
        if outcome.kind == ReportKind.BAD:
            health.bad = True
        elif outcome.kind == ReportKind.MISSING_VERSION:
            health.failed = outcome.failed
        elif outcome.kind == ReportKind.HEALTHY:
            health.bad, health.failed = False, NO_VERSION
