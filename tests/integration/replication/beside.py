"""Storage nodes on real directories beside a world, whose workers ask the stores without an API in between."""

import json
from collections.abc import Sequence
from pathlib import Path

from sexton.replication.agent import layout
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.model import GrantedCut, Removed
from sexton.replication.agent.port import GrantedCutPage
from sexton.replication.agent.sweeping import BackendSweeper
from sexton.replication.binlog.model import CutDone
from sexton.replication.replicas.model import ReplicaReport, TabletReport
from tests.integration.replication.world import SHOP, World


class Direct:
    """What a backend is granted, straight from the stores."""

    def __init__(self, world: World, backend: str) -> None:
        self._world, self._backend = world, backend

    def page(self, after: str) -> GrantedCutPage:
        """Pull."""
        page = self._world.b.sender.page(SHOP, self._backend, after, 500, queue=True)
        return GrantedCutPage([GrantedCut(uid=c.uid, tablet=c.tablet, version=c.version) for c in page.cuts], page.next)

    def acknowledge(self, done: Sequence[Removed]) -> None:
        """Say what is gone."""
        told = [CutDone(uid=r.uid, version=r.version, outcome=r.outcome.value, detail=r.detail) for r in done]
        self._world.b.sender.acknowledge(SHOP, self._backend, told)


class Disk:
    """A storage node: a directory and its meta store, written as the node writes them."""

    def __init__(self, world: World, backend: str, root: Path) -> None:
        self.world, self.backend, self.directory, self._reports = world, backend, root / backend, 0
        self.directory.mkdir(parents=True)
        self.meta = SqliteMeta.create(self.directory, backend)
        self.last: dict[str, int] = {}

    def hold(self, *tablets: str) -> None:
        """Hold copies of tablets."""
        registered = {}
        for tablet in tablets:
            uid = f"{tablet}.{self.backend}"
            (self.directory / tablet / layout.FOLDER).mkdir(parents=True)
            registered[layout.tablet_key(uid)] = json.dumps({"tablet": tablet, "path": tablet}).encode()
            self.last[tablet] = -1
        self.meta.put(registered)

    def write(self, tablet: str, version: int) -> None:
        """Write the binlog of one version."""
        uid, rowset = f"{tablet}.{self.backend}", f"r{version}"
        (self.directory / tablet / layout.FOLDER / f"{rowset}_0.dat").write_bytes(b"x")
        entry = json.dumps({"version": version, "tablet_id": tablet, "num_segments": 1, "rowset_id_v2": rowset})
        self.meta.put(
            {layout.meta_key(uid, version, rowset): entry.encode(), layout.data_key(uid, version, rowset): b"{}"}
        )
        self.last[tablet] = max(self.last[tablet], version)

    def report(self) -> None:
        """Say that all is there."""
        self._reports += 1
        its = tuple(TabletReport(uid=f"{t}.{self.backend}", version=v) for t, v in self.last.items())
        self.world.b.reports.accept(SHOP, self.backend, ReplicaReport(boot=1, sequence=self._reports, tablets=its))

    def sweeper(self) -> BackendSweeper:
        """Return who lets go here."""
        return BackendSweeper(SqliteMeta(self.directory, self.backend), Direct(self.world, self.backend), SHOP)

    def left(self, tablet: str) -> list[str]:
        """Return the files of a tablet's binlogs."""
        return sorted(p.name for p in (self.directory / tablet / layout.FOLDER).iterdir())
