"""A database, its backends, its readers and its followers, of which any may die at any moment; and what must hold.

Everything that is checked is known here by itself: what was committed, what each reader has read, what lies on each
backend. Of Sexton's stores only what they answer is used.
"""

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import select

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.replication.binlog.errors import RecordsTrimmed, UnknownLog
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, BinlogSettings, CutDone
from sexton.replication.journal.errors import JournalTrimmed
from sexton.replication.journal.replaying import FollowerState, ReplicaHealth
from sexton.replication.replicas.model import TabletReport
from sexton.replication.replicas.policy import lowest_needed_version
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance

TABLES, BACKENDS = ("orders", "users"), ("b1", "b2", "b3")
POINTS = ("guarded", "written", "committed", "propagated", "removed")


class Crash(Exception):
    """The process ends here."""


class Reader:
    """A consumer that keeps what it has read."""

    def __init__(self, name: str, table: str, after: int) -> None:
        self.name, self.table, self.has, self.read = name, table, after, list[int]()


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
        """uid → the versions whose binlogs lie on its backend."""
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
        """Return what may happen; what happens often is there often."""
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
        made = {table: {f"p-{table}": self.versions[table]} for table in tables}
        told = self.commit(seq, self.now - self.random.choice((0, 0, 500, 900)) * 1000, **made)
        if told.stored:
            self.committed[seq] = frozenset(tables)
        for follower in self.followers:
            follower.record(DB, seq, tables)

    def reports(self) -> None:
        """Let a backend say what it has."""
        backend = self.random.choice(BACKENDS)
        told = []
        for table in TABLES:
            uid, last = f"t-{table}.{backend}", self.versions[table]
            hole = self.holes.get(uid)
            of = [(0, last)] if hole is None else [r for r in ((0, hole - 1), (hole + 1, last)) if r[0] <= r[1]]
            told.append(TabletReport(uid=uid, ranges=tuple(of), bad=self.random.random() < 0.05))
        with self.dying("report.guarded", "report.written"):
            self.report(backend, *told)

    def pulls(self) -> None:
        """Let a backend let go of what it may, all of it or a part, and say so or die before."""
        backend, after, asked = self.random.choice(BACKENDS), "", 0
        while asked < 5:
            asked += 1
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
                    told = [CutDone(uid=cut.uid, version=cut.version)]
                    assert self.service.sender.acknowledge(SHOP, backend, told).taken == 1
                    self.acked[cut.uid] = max(self.acked[cut.uid], cut.version)
            after = page.next
            if not after:
                return

    def judge(self, uid: str, version: int, before: tuple[int | None, int]) -> None:
        """Hold a grant against what the tablet's copies needed when it was made."""
        need, granted = before
        assert need is None or version < need or version <= granted, f"{uid}: {version} granted, {need} is needed"

    def copies(self) -> dict[str, tuple[int | None, int]]:
        """Return for each copy what its tablet needs (None: nothing), and what was granted already."""
        t, found = self.db.t.replica, {}
        with self.db.read() as c:
            uids = {r.tablet for r in c.execute(select(t.c.tablet))}
        for tablet in uids:
            its, now = self.service.replicas.tablet(SHOP, tablet)
            least = lowest_needed_version(its, now)
            found |= {r.uid: (None if least is None else least[0], r.granted) for r in its}
        return found

    def looks(self) -> None:
        """Look at all binlogs, or die at it."""
        with self.dying(*(f"binlog.{p}" for p in POINTS)):
            self.cut_expired()

    def reads(self) -> None:
        """Let a reader read on, and say so."""
        if not self.readers:
            return
        its = self.random.choice(list(self.readers.values()))
        try:
            page = self.service.records.read(SHOP, DB, its.table, its.has, self.random.randint(1, 4))
        except (RecordsTrimmed, UnknownLog):
            assert its.table in self.dropped or self.lost(its), f"{its.name} was not lost, and cannot read on"
            del self.readers[its.name]
            return
        its.read += [r.commit_seq for r in page.records]
        its.has = max([its.has, *its.read])
        if self.random.random() < 0.7:
            self.service.consumers.acknowledge(SHOP, its.name, DB, its.table, its.has)

    def lost(self, its: Reader) -> bool:
        """Tell whether a reader is LOST, by what is said of it."""
        return any(c.name == its.name and c.lost_at is not None for c in self.service.consumers.all(SHOP))

    def registers(self) -> None:
        """Let somebody new read, or somebody read no more."""
        name = self.random.choice(("lisbon", "porto"))
        if (its := self.readers.pop(name, None)) is not None:
            self.service.consumers.remove(SHOP, name, DB, its.table)
            return
        table = self.random.choice(("", *TABLES))
        try:
            told = self.service.consumers.register(SHOP, name, DB, table)
        except UnknownLog:
            return
        self.readers[name] = Reader(name, table, told.acked)

    def follows(self) -> None:
        """Let a follower apply some entries; or it dies, and is what it was when it wrote itself down."""
        n = self.random.randrange(2)
        if self.random.random() < 0.3:
            self.followers[n] = copy.deepcopy(self._saved[n])
            for seq, tables in self.committed.items():
                self.followers[n].record(DB, seq, tables)
        its = self.followers[n]
        for entry in self.entries(its)[: self.random.randint(1, 5)]:
            its.apply(entry)
        if self.random.random() < 0.5:
            self._saved[n] = copy.deepcopy(its)

    def entries(self, its: FollowerState) -> list[object]:
        """Return what comes next for a follower; it begins anew where that is gone."""
        try:
            return list(self.service.journal.read(SHOP, its.applied).entries)
        except JournalTrimmed:
            its.load_snapshot(self.service.replicas.snapshot(SHOP))
            return list(self.service.journal.read(SHOP, its.applied).entries)

    def loses(self) -> None:
        """Let a copy lose a version."""
        uid = self.random.choice(list(self.disks) or ["none"])
        table = uid.removeprefix("t-").partition(".")[0]
        if table in TABLES and self.versions[table]:
            self.holes[uid] = self.random.randint(1, self.versions[table])

    def repairs(self) -> None:
        """Let a copy be whole again."""
        if self.holes:
            self.holes.pop(self.random.choice(list(self.holes)))

    def passes(self) -> None:
        """Let time pass."""
        self.later(self.random.choice((30, 61, 300, 620)))

    def configures(self) -> None:
        """Keep logs otherwise, or drop a table: seldom."""
        what = self.random.random()
        if what < 0.1 and len(self.dropped) < 1:
            table = self.random.choice(TABLES)
            self.service.configs.drop(SHOP, DB, table)
            self.dropped.add(table)
            self.readers = {n: r for n, r in self.readers.items() if r.table != table}
            for follower in (*self.followers, *self._saved):
                for backend in BACKENDS:
                    follower.displace(f"t-{table}", backend)
        elif what < 0.6:
            self.configure_log(
                self.random.choice((0, 300, 600, None)), max_history_nums=self.random.choice((None, 5, 20))
            )

    def gives_up(self) -> None:
        """Let somebody say that a copy counts no more: seldom."""
        if self.random.random() < 0.2:
            table = self.random.choice([t for t in TABLES if t not in self.dropped])
            self.service.replicas.full_copy(SHOP, f"t-{table}", self.random.choice(BACKENDS), "the test says so")

    @contextmanager
    def dying(self, *points: str) -> Iterator[list[bool]]:
        """Die at one of these points, sometimes."""
        at, died = self.random.choice(points) if self.random.random() < 0.3 else None, list[bool]()

        def crash(name: str) -> None:
            if name == at:
                raise Crash

        try:
            with installed(crash):
                yield died
        except Crash:
            died.append(True)

    def holds(self) -> None:
        """Assert what must hold after any history."""
        for uid, versions in self.disks.items():
            table = uid.removeprefix("t-").partition(".")[0]
            made = set(range(1, self.versions[table] + 1))
            assert not {v for v in versions if v <= self.acked[uid]}, f"{uid}: left below what was acknowledged"
            assert {v for v in made if v > self.granted[uid]} <= versions, f"{uid}: gone above what was granted"
        for reader in self.readers.values():
            if self.lost(reader):
                continue
            beyond = {s for s, its in self.committed.items() if s > reader.has and self.concerns(reader, its)}
            found = set(self.readable_seqs(reader.table, after=reader.has))
            assert beyond == found, f"{reader.name} lacks {sorted(beyond - found)}, and has {sorted(found - beyond)}"
            assert reader.read == sorted(set(reader.read))

    def concerns(self, reader: Reader, tables: frozenset[str]) -> bool:
        """Tell whether a record is in what somebody reads."""
        return not reader.table or reader.table in tables

    def agree(self) -> None:
        """Assert that followers have what their leader has, once they have caught up."""
        t = self.db.t.replica
        with self.db.read() as c:
            rows = c.execute(select(t).where(t.c.dropped.is_(False))).all()
        unwell = {
            (r.tablet, r.backend): ReplicaHealth(bad=r.bad_since is not None, failed=r.failed)
            for r in rows
            if r.bad_since is not None or r.failed >= 0
        }
        logs = {table: self.readable_seqs(table) for table in ("", *(t for t in TABLES if t not in self.dropped))}
        for follower in self.followers:
            while entries := self.entries(follower):
                for entry in entries:
                    follower.apply(entry)  # type: ignore[arg-type]
            its = follower.databases.get(DB)
            assert {table: its.log(table) if its else [] for table in logs} == logs
            assert dict(follower.unhealthy()) == unwell

    def settle(self) -> None:
        """Let everybody be well, and all that may go, go; then nothing is left below the cuts."""
        self.holes.clear()
        for name, its in list(self.readers.items()):
            self.service.consumers.remove(SHOP, name, DB, its.table)
        self.readers.clear()
        for _ in range(2):
            self.cut_expired()
            for backend in BACKENDS:
                every = [TabletReport(uid=f"t-{t}.{backend}", ranges=((0, self.versions[t]),)) for t in TABLES]
                self.report(backend, *every)
        for backend in BACKENDS:
            for uid, version in self.granted_cuts(backend).items():
                self.disks[uid] = {v for v in self.disks[uid] if v > version}
                self.granted[uid] = self.acked[uid] = version
                self.service.sender.acknowledge(SHOP, backend, [CutDone(uid=uid, version=version)])
        t = self.db.t
        with self.db.read() as c:
            fold = {r.part: r.version for r in c.execute(select(t.binlog_partition_cut))}
            late = list(c.execute(select(t.replica.c.uid).where(t.replica.c.desired > t.replica.c.acked)).scalars())
            below = c.execute(
                select(t.binlog_table_record.c.seq).join(
                    t.binlog_log,
                    (t.binlog_log.c.tbl == t.binlog_table_record.c.tbl)
                    & (t.binlog_table_record.c.seq <= t.binlog_log.c.watermark),
                )
            ).all()
        assert (late, below) == ([], [])
        for uid, versions in self.disks.items():
            table = uid.removeprefix("t-").partition(".")[0]
            cut = MAX_COMMIT_SEQ if table in self.dropped else fold.get(f"p-{table}", -1)
            assert not {v for v in versions if v <= cut}, uid
