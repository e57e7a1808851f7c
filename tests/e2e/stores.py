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
from tests.support.rig import Rig

BACKENDS = ("b1", "b2", "b3")
TTL = 60
PATIENCE = 5


class Stores:
    """A database ``sales``; what each copy has taken is counted here, what it has left is read from its directory."""

    def __init__(self, rig: Rig, api: Api, directory: Path) -> None:
        self.world, self.directory, self._api = BinlogInstance(rig.db), directory, api
        self._tokens = {b: api.token(f"node:{b}") for b in BACKENDS}
        self.closing = ExitStack()
        self.owner = self.client(api.token("operate"))
        for name in (*BACKENDS, "leader"):
            (directory / name).mkdir()
        self.backends = {b: Backend(b, self.client(self._tokens[b]), directory / b) for b in BACKENDS}
        self.leader = self.led()
        self.follower = Follower("f1", DB, self.owner)
        self.leader.lead(self.follower)
        self.taken: dict[tuple[str, str], set[int]] = {}
        """(tablet, backend) → the versions that were published there."""

    def client(self, token: str) -> Sexton:
        return self.closing.enter_context(Sexton(self._api.url, token, patience_seconds=PATIENCE))

    def led(self) -> Leader:
        """A leader that has just started."""
        return Leader(DB, self.owner, self.backends, self.directory / "leader", clock=lambda: self.world.now)

    def begin(self, *tables: str) -> None:
        self.leader.keep(TTL)
        for table in tables:
            self.leader.create_table(table)

    def upsert(self, *tables: str, but: Collection[str] = (), times: int = 1) -> int:
        """Commit; return the commit_seq of the last one."""
        seq = 0
        for _ in range(times):
            seq = self.leader.upsert(*tables, rows=f"rows {seq}", but=but)
            for table in tables:
                its = self.leader.tables[table]
                (version,) = its.versions.values()
                for tablet, b in its.copies():
                    if b not in but:
                        self.taken.setdefault((tablet, b), set()).add(version)
        return seq

    def expire(self) -> None:
        """Let everything expire that was committed; no clock jumps by that."""
        self.world.later(TTL + 30)

    def report(self, *backends: str) -> None:
        for b in backends or BACKENDS:
            self.backends[b].report()

    def sweeper(self, backend: str, keys: int = 2) -> BackendSweeper:
        """Who sweeps beside a backend, just started; small pages, so that there are many places to crash at."""
        cuts = HttpCuts(self._api.url, self._tokens[backend], backend, SHOP)
        self.closing.callback(cuts.close)
        return BackendSweeper(SqliteMeta(self.directory / backend, backend), cuts, SHOP, keys)

    def sweep(self, *backends: str) -> Swept:
        swept = Swept()
        for b in backends or BACKENDS:
            swept += self.sweeper(b).sweep(lambda: None)
        return swept

    def round(self, *but: str) -> int:
        """Report, cut and sweep, ``but`` some backends, which are away; return how many records were cut."""
        there = [b for b in BACKENDS if b not in but]
        self.report(*there)
        records = self.world.cut_expired().records
        self.sweep(*there)
        return records

    def repair(self, tablet: str, backend: str, source: str) -> list[int]:
        version = max(self.leader.tables[tablet.partition(".")[0]].versions.values(), default=0)
        its, other = self.backends[backend], self.backends[source]
        return its.repair(uid(tablet, backend), other, uid(tablet, source), version)

    def versions(self, tablet: str, backend: str, *, whole: bool = True) -> list[int]:
        """Return the versions of which a copy has binlogs, read without any code of Sexton's or minidb's.

        ``whole``: no sweep is unfinished, so no key is without its files.
        """
        name, root = uid(tablet, backend), self.directory / backend
        with closing(sqlite3.connect(f"file:{root / 'meta.db'}?mode=ro", uri=True)) as c:
            keys = [k.split("_")[1:] for (k,) in c.execute("SELECT key FROM entry WHERE key LIKE 'binlog%'")]
        found = {kind: {(int(v), r) for k, u, v, r in keys if (k, u) == (kind, name)} for kind in ("meta", "data")}
        files = {p.name for p in (root / "data" / name / "_binlog").glob("*")}
        assert found["meta"] == found["data"]
        named = {(version, f"{rowset}_{n}.dat") for version, rowset in found["meta"] for n in (0, 1)}
        assert files <= {name for _, name in named}  # files before keys, whatever crashed
        half = {version for version, name in named if name not in files}
        assert not (whole and half)
        return sorted(version for version, _ in found["meta"] if version not in half)

    def exact(self, *away: str) -> bool:
        """Tell whether each backend has the binlogs above what it acknowledged, all of them and no others."""
        for (tablet, b), taken in self.taken.items():
            if b not in away and not self.leader.tables[tablet.partition(".")[0]].dropped:
                acked = self.world.replica(tablet, b).acked
                assert self.versions(tablet, b) == sorted(v for v in taken if v > acked), (tablet, b, acked)
        return True

    def repairable(self) -> bool:
        """Tell whether what any copy lacks is in the binlogs of another one."""
        for table, its in self.leader.tables.items():
            for tablet, b in its.copies() if not its.dropped else ():
                lacks = self.backends[b].missing(uid(tablet, b), its.versions.get(f"{table}.p", 0))
                there = {v for other in BACKENDS if other != b for v in self.versions(tablet, other, whole=False)}
                assert there.issuperset(lacks), (tablet, b, lacks, there)
        return True

    def equal(self) -> bool:
        """Tell whether the follower is its leader's equal."""
        self.follower.catch_up()
        assert self.follower.logs() == self.leader.logs()
        assert self.follower.unwell() == self.leader.unwell()
        return True

    def same(self, tablet: str) -> bool:
        """Tell whether all copies of a tablet have the same rows in the same versions."""
        read = [self.backends[b].read(uid(tablet, b)) for b in BACKENDS]
        return read[0] == read[1] == read[2]
