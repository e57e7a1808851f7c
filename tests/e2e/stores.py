"""Three storage backends of minidb, their leader and a follower, and Sexton, which cuts binlogs over its real API."""

import sqlite3
from collections.abc import Collection
from contextlib import ExitStack, closing
from pathlib import Path

from examples.minidb.backends import Backend
from examples.minidb.binlogs import Leader, uid
from examples.minidb.follower import Follower
from sexton.client import Sexton
from sexton.replication.agent.http import HttpCuts
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.model import Swept
from sexton.replication.agent.sweeping import BackendSweeper
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

BACKENDS = ("b1", "b2", "b3")
TTL = 60


class Stores:
    """A database ``sales``: counts the versions that each replica received, and reads the rest from its directory."""

    def __init__(self, rig: Rig, api: Api, directory: Path) -> None:
        self.world, self.directory, self._api = BinlogInstance(rig.db), directory, api
        self._tokens = {b: api.token(f"node:{b}@{SHOP}") for b in BACKENDS}
        self.closing = ExitStack()
        self.owner = self.client(api.token(f"operate@{SHOP}"))
        for name in (*BACKENDS, "leader"):
            (directory / name).mkdir()
        self.backends = {b: Backend(b, self.client(self._tokens[b]), directory / b) for b in BACKENDS}
        self.leader = self.start_leader()
        self.follower = Follower("f1", DB, self.owner)
        self.leader.lead(self.follower)
        self.taken: dict[tuple[str, str], set[int]] = {}
        """(tablet, backend) → the versions that were published there."""

    def client(self, token: str) -> Sexton:
        return self.closing.enter_context(Sexton(self._api.url, token, patience_seconds=PATIENCE_SECONDS))

    def start_leader(self) -> Leader:
        """Return a newly started leader."""
        return Leader(DB, self.owner, self.backends, self.directory / "leader", clock=lambda: self.world.now)

    def begin(self, *tables: str) -> None:
        self.leader.keep(TTL)
        for table in tables:
            self.leader.create_table(table)

    def upsert(self, *tables: str, but: Collection[str] = (), times: int = 1) -> int:
        """Commit upserts; return the commit_seq of the last one."""
        seq = 0
        for _ in range(times):
            seq = self.leader.upsert(*tables, rows=f"rows {seq}", but=but)
            for table in tables:
                minidb_table = self.leader.tables[table]
                (version,) = minidb_table.versions.values()
                for tablet, b in minidb_table.copies():
                    if b not in but:
                        self.taken.setdefault((tablet, b), set()).add(version)
        return seq

    def expire(self) -> None:
        """Advance the clock until every committed record has expired; small enough not to count as a clock jump."""
        self.world.later(TTL + 30)

    def report(self, *backends: str) -> None:
        for b in backends or BACKENDS:
            self.backends[b].report()

    def sweeper(self, backend: str, keys: int = 2) -> BackendSweeper:
        """Return a new sweeper of a backend, with small pages, so that there are many points to crash at."""
        cuts = HttpCuts(self._api.url, self._tokens[backend], backend, SHOP)
        self.closing.callback(cuts.close)
        return BackendSweeper(SqliteMeta(self.directory / backend, backend), cuts, SHOP, keys)

    def sweep(self, *backends: str) -> Swept:
        swept = Swept()
        for b in backends or BACKENDS:
            swept += self.sweeper(b).sweep(lambda: None)
        return swept

    def round(self, *but: str) -> int:
        """Report, cut and sweep; backends in ``but`` are away. Return how many records were cut."""
        present = [b for b in BACKENDS if b not in but]
        self.report(*present)
        records = self.world.cut_expired().records
        self.sweep(*present)
        return records

    def repair(self, tablet: str, backend: str, source: str) -> list[int]:
        version = max(self.leader.tables[tablet.partition(".")[0]].versions.values(), default=0)
        target, source_backend = self.backends[backend], self.backends[source]
        return target.repair(uid(tablet, backend), source_backend, uid(tablet, source), version)

    def versions(self, tablet: str, backend: str, *, whole: bool = True) -> list[int]:
        """Return the versions whose binlogs a replica has, read without code of Sexton or minidb.

        ``whole``: assert that every key has its files, because no sweep is unfinished.
        """
        name, root = uid(tablet, backend), self.directory / backend
        with closing(sqlite3.connect(f"file:{root / 'meta.db'}?mode=ro", uri=True)) as c:
            keys = [k.split("_")[1:] for (k,) in c.execute("SELECT key FROM entry WHERE key LIKE 'binlog%'")]
        keys_of = {kind: {(int(v), r) for k, u, v, r in keys if (k, u) == (kind, name)} for kind in ("meta", "data")}
        files = {p.name for p in (root / "data" / name / "_binlog").glob("*")}
        assert keys_of["meta"] == keys_of["data"]
        named_files = {(version, f"{rowset}_{n}.dat") for version, rowset in keys_of["meta"] for n in (0, 1)}
        assert files <= {name for _, name in named_files}  # files before keys, whatever crashed
        half_deleted = {version for version, name in named_files if name not in files}
        assert not (whole and half_deleted)
        return sorted(version for version, _ in keys_of["meta"] if version not in half_deleted)

    def have_exact_binlogs(self, *away: str) -> bool:
        """Assert that each backend has exactly the binlogs above the version it acknowledged."""
        for (tablet, b), taken in self.taken.items():
            if b not in away and not self.leader.tables[tablet.partition(".")[0]].dropped:
                acked = self.world.replica(tablet, b).acked
                assert self.versions(tablet, b) == sorted(v for v in taken if v > acked), (tablet, b, acked)
        return True

    def are_repairable(self) -> bool:
        """Assert that another replica has the binlogs of every version that a replica lacks."""
        for name, minidb_table in self.leader.tables.items():
            for tablet, b in minidb_table.copies() if not minidb_table.dropped else ():
                missing = self.backends[b].missing(uid(tablet, b), minidb_table.versions.get(f"{name}.p", 0))
                available = {v for other in BACKENDS if other != b for v in self.versions(tablet, other, whole=False)}
                assert available.issuperset(missing), (tablet, b, missing, available)
        return True

    def follower_is_equal(self) -> bool:
        """Assert that the follower equals its leader."""
        self.follower.catch_up()
        assert self.follower.logs() == self.leader.logs()
        assert self.follower.unwell() == self.leader.unwell()
        return True

    def replicas_are_equal(self, tablet: str) -> bool:
        """Return whether all replicas of a tablet have the same rows in the same versions."""
        rows = [self.backends[b].read(uid(tablet, b)) for b in BACKENDS]
        return rows[0] == rows[1] == rows[2]
