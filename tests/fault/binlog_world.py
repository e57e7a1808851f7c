"""The world of a random binlog history: a database, backends, readers and followers, any of which may die.

The world knows the committed records, the records that each reader has read, and the versions on each backend. It uses
only the answers of Sexton's stores.
"""

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import select

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.replication.agent.model import CutDone
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.errors import JournalTrimmed, RecordsTrimmed, UnknownLog
from sexton.replication.journal.replaying import FollowerState
from sexton.replication.replicas.model import TabletReport
from sexton.replication.replicas.policy import lowest_needed_version
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.support.crashes import Crash, crash_at

TABLES, BACKENDS = ("orders", "users"), ("b1", "b2", "b3")
POINTS = ("guarded", "written", "committed", "propagated", "removed")


class Reader:
    """A consumer that remembers the records it has read."""

    def __init__(self, name: str, table: str, after: int) -> None:
        self.name, self.table, self.position, self.records = name, table, after, list[int]()


class BinlogWorld(BinlogInstance):
    """One database of two tables with a tablet each on three backends."""

    def __init__(self, db: Database, seed: int) -> None:
        super().__init__(db, BinlogSettings(free_records=10**6))
        self.random = random.Random(seed)
        self.committed: dict[int, frozenset[str]] = {}
        self.versions: dict[str, int] = dict.fromkeys(TABLES, 0)
        self.dropped: set[str] = set()
        self.readers: dict[str, Reader] = {}
        self.disks: dict[str, set[int]] = defaultdict(set)
        """uid → the versions whose binlogs its backend has."""
        self.granted: dict[str, int] = defaultdict(lambda: -1)
        self.acked: dict[str, int] = defaultdict(lambda: -1)
        self.holes: dict[str, int | None] = {}
        """uid → the version that it lacks."""
        self.followers = [FollowerState() for _ in range(2)]
        self.configure_log(600)
        for table in TABLES:
            self.place(f"t-{table}", *BACKENDS, part=f"p-{table}", table=table)
        for follower in self.followers:
            for table in TABLES:
                for backend in BACKENDS:
                    follower.place(f"t-{table}", backend)
        self._saved = [copy.deepcopy(f) for f in self.followers]

    def steps(self) -> list[Callable[[], None]]:
        """Return the possible steps, frequent ones several times."""
        often = [self.commits, self.commits, self.reports, self.reports, self.pulls, self.pulls, self.looks, self.reads]
        return [
            *often,
            self.follows,
            self.registers,
            self.loses,
            self.repairs,
            self.passes,
            self.configures,
            self.gives_up,
        ]

    def commits(self) -> None:
        """Commit an upsert of some tables."""
        tables = [t for t in self.random.sample(TABLES, self.random.randint(1, 2)) if t not in self.dropped]
        if not tables:
            return
        seq = max(self.committed, default=0) + self.random.randint(1, 3)
        for table in tables:
            self.versions[table] += 1
            for backend in BACKENDS:
                self.disks[f"t-{table}.{backend}"].add(self.versions[table])
        versions = {table: {f"p-{table}": self.versions[table]} for table in tables}
        result = self.commit(seq, self.now - self.random.choice((0, 0, 500, 900)) * 1000, **versions)
        if result.stored:
            self.committed[seq] = frozenset(tables)
        for follower in self.followers:
            follower.record(DB, seq, tables)

    def reports(self) -> None:
        """Let a backend report its replicas."""
        backend = self.random.choice(BACKENDS)
        reports = []
        for table in TABLES:
            uid, last = f"t-{table}.{backend}", self.versions[table]
            hole = self.holes.get(uid)
            ranges = [(0, last)] if hole is None else [r for r in ((0, hole - 1), (hole + 1, last)) if r[0] <= r[1]]
            reports.append(TabletReport(uid=uid, ranges=tuple(ranges), bad=self.random.random() < 0.05))
        with self.dying("report.guarded", "report.written"):
            self.report(backend, *reports)

    def pulls(self) -> None:
        """Let a backend delete granted versions, all or some, and acknowledge them or die before."""
        backend, after = self.random.choice(BACKENDS), ""
        for _ in range(5):
            before = self.copies()
            with self.dying("binlog.granted") as died:
                page = self.pull_cuts(backend, after, 2)
            if died:
                return
            for cut in page.cuts:
                self.judge(cut.uid, cut.version, before[cut.uid])
                self.granted[cut.uid] = max(self.granted[cut.uid], cut.version)
                self.disks[cut.uid] -= {v for v in self.disks[cut.uid] if v <= cut.version}
                if self.random.random() < 0.8:
                    done = [CutDone(uid=cut.uid, version=cut.version)]
                    assert self.service.sender.acknowledge(SHOP, backend, done).taken == 1
                    self.acked[cut.uid] = max(self.acked[cut.uid], cut.version)
            after = page.next
            if not after:
                return

    def judge(self, uid: str, version: int, before: tuple[int | None, int]) -> None:
        """Assert that a grant left the versions that the tablet's replicas needed when it was made."""
        need, granted = before
        assert need is None or version < need or version <= granted, f"{uid}: {version} granted, {need} is needed"

    def copies(self) -> dict[str, tuple[int | None, int]]:
        """Return for each replica the version its tablet needs (None: none), and the version already granted."""
        t, states = self.db.t.replica, {}
        with self.db.read() as c:
            uids = {r.tablet for r in c.execute(select(t.c.tablet))}
        for tablet in uids:
            replicas, now = self.service.replicas.tablet(SHOP, tablet)
            least = lowest_needed_version(replicas, now)
            states |= {r.uid: (None if least is None else least[0], r.granted) for r in replicas}
        return states

    def looks(self) -> None:
        """Run binlog GC, or die in it."""
        with self.dying(*(f"binlog.{p}" for p in POINTS)):
            self.cut_expired()

    def reads(self) -> None:
        """Let a reader read more records, and acknowledge them."""
        if not self.readers:
            return
        reader = self.random.choice(list(self.readers.values()))
        try:
            page = self.service.records.read(SHOP, DB, reader.table, reader.position, self.random.randint(1, 4))
        except (RecordsTrimmed, UnknownLog):
            assert reader.table in self.dropped or self.lost(reader), f"{reader.name} was not lost, and cannot read"
            del self.readers[reader.name]
            return
        reader.records += [r.commit_seq for r in page.records]
        reader.position = max([reader.position, *reader.records])
        if self.random.random() < 0.7:
            self.service.consumers.acknowledge(SHOP, reader.name, DB, reader.table, reader.position)

    def lost(self, reader: Reader) -> bool:
        """Return whether Sexton reports a reader as LOST."""
        return any(c.name == reader.name and c.lost_at is not None for c in self.service.consumers.all(SHOP))

    def registers(self) -> None:
        """Register a new reader, or remove one."""
        name = self.random.choice(("lisbon", "porto"))
        if (reader := self.readers.pop(name, None)) is not None:
            self.service.consumers.remove(SHOP, name, DB, reader.table)
            return
        table = self.random.choice(("", *TABLES))
        try:
            registered = self.service.consumers.register(SHOP, name, DB, table)
        except UnknownLog:
            return
        self.readers[name] = Reader(name, table, registered.acked)

    def follows(self) -> None:
        """Let a follower apply some entries, or die and return to its last saved state."""
        n = self.random.randrange(2)
        if self.random.random() < 0.3:
            self.followers[n] = copy.deepcopy(self._saved[n])
            for seq, tables in self.committed.items():
                self.followers[n].record(DB, seq, tables)
        follower = self.followers[n]
        for entry in self.entries(follower)[: self.random.randint(1, 5)]:
            follower.apply(entry)
        if self.random.random() < 0.5:
            self._saved[n] = copy.deepcopy(follower)

    def entries(self, follower: FollowerState) -> list[object]:
        """Return the next entries for a follower; if they are trimmed, begin again with a snapshot."""
        try:
            return list(self.service.journal.read(SHOP, follower.applied).entries)
        except JournalTrimmed:
            follower.load_snapshot(self.service.replicas.snapshot(SHOP))
            return list(self.service.journal.read(SHOP, follower.applied).entries)

    def loses(self) -> None:
        """Let a replica lose a version."""
        uid = self.random.choice(list(self.disks) or ["none"])
        table = uid.removeprefix("t-").partition(".")[0]
        if table in TABLES and self.versions[table]:
            self.holes[uid] = self.random.randint(1, self.versions[table])

    def repairs(self) -> None:
        """Repair a replica."""
        if self.holes:
            self.holes.pop(self.random.choice(list(self.holes)))

    def passes(self) -> None:
        """Advance the clock."""
        self.later(self.random.choice((30, 61, 300, 620)))

    def configures(self) -> None:
        """Change the retention of the logs, or (seldom) drop a table."""
        chance = self.random.random()
        if chance < 0.1 and len(self.dropped) < 1:
            table = self.random.choice(TABLES)
            self.service.configs.drop(SHOP, DB, table)
            self.dropped.add(table)
            self.readers = {n: r for n, r in self.readers.items() if r.table != table}
            for follower in (*self.followers, *self._saved):
                for backend in BACKENDS:
                    follower.displace(f"t-{table}", backend)
        elif chance < 0.6:
            self.configure_log(
                self.random.choice((0, 300, 600, None)), max_history_nums=self.random.choice((None, 5, 20))
            )

    def gives_up(self) -> None:
        """Mark a replica as full-copy only, seldom."""
        if self.random.random() < 0.2:
            table = self.random.choice([t for t in TABLES if t not in self.dropped])
            self.service.replicas.full_copy(SHOP, f"t-{table}", self.random.choice(BACKENDS), "the test says so")

    @contextmanager
    def dying(self, *points: str) -> Iterator[list[bool]]:
        """Sometimes die at one of these points; the yielded list is then not empty."""
        at, died = self.random.choice(points) if self.random.random() < 0.3 else "", list[bool]()
        try:
            with installed(crash_at(at)):
                yield died
        except Crash:
            died.append(True)
