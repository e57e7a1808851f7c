"""What a follower has, and what each entry of the journal does to it. Pure, total, and the same however often.

A follower brings its own records and replicas: those are not in the journal. What the journal knows of logs, tables and
tablets that it has not got is passed over, and kept for the day on which it has them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sexton.replication.journal.model import (
    JournalEntry,
    Op,
    ReplicaOutcome,
    ReportKind,
    Snapshot,
    Tombstone,
    reports,
    tombstones,
)

NONE = -1
"""No version has failed."""


@dataclass
class ReplicaHealth:
    """What is known of one replica."""

    bad: bool = False
    failed: int = NONE


@dataclass
class DatabaseBinlogs:
    """The binlogs of one database. Up to a watermark all is gone, be it known or not."""

    records: dict[int, frozenset[str]] = field(default_factory=dict)
    """Its number → the tables that it names."""
    watermark: int = 0
    tables: dict[str, int] = field(default_factory=dict)
    dropped: bool = False
    gone: set[str] = field(default_factory=set)
    """Tables that were dropped."""

    def log(self, table: str = "") -> list[int]:
        """Return the records of the database's log, or of a table's, in their order."""
        if self.dropped or table in self.gone:
            return []
        beyond = self.tables.get(table, 0) if table else self.watermark
        return sorted(n for n, its in self.records.items() if n > beyond and (not table or table in its))

    def raised(self, t: Tombstone) -> None:
        """Forget what a tombstone names."""
        tables: Iterable[str] = t.tables or ()
        if t.database:
            self.watermark = max(self.watermark, t.seq)
            self.dropped |= t.dropped
            if t.tables is None:
                tables = {table for its in self.records.values() for table in its}
        for table in tables:
            self.tables[table] = max(self.tables.get(table, 0), t.seq)
            if t.dropped:
                self.gone.add(table)
        # A table's records expire by themselves only where its database has no log; of a drop nobody can tell.
        alone = not t.database and not t.dropped
        self.records = {n: its for n, its in self.records.items() if not self.over(n, its, alone=alone)}

    def over(self, n: int, its: frozenset[str], *, alone: bool) -> bool:
        """Tell whether a record is in no log any more; ``alone``: the database has none of its own."""
        if self.dropped:
            return True
        cut = all(n <= self.tables.get(table, 0) for table in its)
        return cut and (n <= self.watermark or (alone and bool(its)))


class FollowerState:
    """A follower's state. ``applied``: the last entry that is in it."""

    def __init__(self) -> None:
        self.applied = 0
        self.databases: dict[str, DatabaseBinlogs] = {}
        self.health: dict[tuple[str, str], ReplicaHealth] = {}
        """(tablet, backend) → its health."""

    def record(self, db: str, seq: int, tables: Iterable[str]) -> None:
        """Take a record, unless it is gone already."""
        logs = self.databases.setdefault(db, DatabaseBinlogs())
        its = frozenset(tables)
        if not logs.over(seq, its, alone=False):
            logs.records[seq] = its

    def place(self, tablet: str, backend: str) -> None:
        """Say that a tablet has a copy there; repeatable."""
        self.health.setdefault((tablet, backend), ReplicaHealth())

    def displace(self, tablet: str, backend: str) -> None:
        """Say that it has none there any more; repeatable."""
        self.health.pop((tablet, backend), None)

    def begin(self, at: Snapshot) -> None:
        """Take what all entries up to one amount to, in place of those that were missed."""
        self.databases = {db: DatabaseBinlogs(records=logs.records) for db, logs in self.databases.items()}
        for m in at.marks:
            tombstone = Tombstone(
                database=not m.tbl, db=m.db, tables=(m.tbl,) if m.tbl else (), seq=m.seq, dropped=m.dropped
            )
            self.databases.setdefault(m.db, DatabaseBinlogs()).raised(tombstone)
        self.health = {key: ReplicaHealth() for key in self.health}
        for backend, its in at.replicas:
            self._report(backend, its)
        self.applied = at.seq

    def apply(self, entry: JournalEntry) -> bool:
        """Apply one entry; False where it was applied before."""
        if entry.seq <= self.applied:
            return False
        if entry.op == Op.GC_BINLOG:
            for tombstone in tombstones(entry.body):
                self.databases.setdefault(tombstone.db, DatabaseBinlogs()).raised(tombstone)
        elif entry.op in (Op.BACKEND_REPLICAS_INFO, Op.BACKEND_TABLETS_INFO):
            backend, told = reports(entry.op, entry.body)
            for its in told:
                self._report(backend, its)
        self.applied = entry.seq
        return True

    def logs(self) -> Mapping[str, Mapping[str, list[int]]]:
        """Return all logs that have records: database → table, empty for its own → their numbers."""
        found = {}
        for db, logs in self.databases.items():
            names = {"", *(table for its in logs.records.values() for table in its)}
            if its := {name: log for name in sorted(names) if (log := logs.log(name))}:
                found[db] = its
        return found

    def unwell(self) -> Mapping[tuple[str, str], ReplicaHealth]:
        """Return the replicas with which something is wrong."""
        return {key: its for key, its in self.health.items() if its != ReplicaHealth()}

    def _report(self, backend: str, its: ReplicaOutcome) -> None:
        replica = self.health.get((its.tablet, backend))
        if replica is None:
            return
        if its.kind == ReportKind.BAD:
            replica.bad = True
        elif its.kind == ReportKind.MISSING_VERSION:
            replica.failed = its.failed
        elif its.kind == ReportKind.HEALTHY:
            replica.bad, replica.failed = False, NONE
