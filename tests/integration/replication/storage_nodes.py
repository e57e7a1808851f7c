"""Storage nodes on real directories, whose workers call the stores directly, without the API."""

import json
from collections.abc import Sequence
from pathlib import Path

from sexton.replication.agent import model
from sexton.replication.agent.model import CutDone, GrantedCutPage
from sexton.replication.agent.sweeping import BackendSweeper
from sexton.replication.replicas.model import ReplicaReport, TabletReport
from tests.integration.replication.binlog_instance import SHOP, BinlogInstance
from tests.integration.replication.node_meta import NodeMeta, data_key, meta_key


class DirectCuts:
    """A backend's granted cuts, directly from the stores."""

    def __init__(self, binlogs: BinlogInstance, backend: str) -> None:
        self._binlogs, self._backend = binlogs, backend

    def page(self, after: str) -> GrantedCutPage:
        """Pull a page of granted cuts and return it."""
        page = self._binlogs.service.sender.page(SHOP, self._backend, after, 500, queue=True)
        return GrantedCutPage(page.cuts, page.next)

    def acknowledge(self, done: Sequence[CutDone]) -> None:
        """Acknowledge removed versions."""
        self._binlogs.service.sender.acknowledge(SHOP, self._backend, done)


class StorageNode:
    """A storage node: a directory and its meta store, written as the node writes them."""

    def __init__(self, binlogs: BinlogInstance, backend: str, root: Path) -> None:
        self.binlogs, self.backend, self.directory, self._reports = binlogs, backend, root / backend, 0
        self.directory.mkdir(parents=True)
        self.meta = NodeMeta.create(self.directory, backend)
        self.last: dict[str, int] = {}

    def register_tablets(self, *tablets: str) -> None:
        """Register a copy of each tablet."""
        registered = {}
        for tablet in tablets:
            uid = f"{tablet}.{self.backend}"
            (self.directory / tablet / model.FOLDER).mkdir(parents=True)
            registered[model.tablet_key(uid)] = json.dumps({"tablet": tablet, "path": tablet}).encode()
            self.last[tablet] = -1
        self.meta.put(registered)

    def write(self, tablet: str, version: int) -> None:
        """Write the binlog of one version."""
        uid, rowset = f"{tablet}.{self.backend}", f"r{version}"
        (self.directory / tablet / model.FOLDER / f"{rowset}_0.dat").write_bytes(b"x")
        entry = json.dumps({"version": version, "tablet_id": tablet, "num_segments": 1, "rowset_id_v2": rowset})
        self.meta.put({meta_key(uid, version, rowset): entry.encode(), data_key(uid, version, rowset): b"{}"})
        self.last[tablet] = max(self.last[tablet], version)

    def report(self) -> None:
        """Report that every copy has all versions that were written."""
        self._reports += 1
        tablets = tuple(TabletReport(uid=f"{t}.{self.backend}", version=v) for t, v in self.last.items())
        self.binlogs.service.reports.accept(
            SHOP, self.backend, ReplicaReport(boot=1, sequence=self._reports, tablets=tablets)
        )

    def sweeper(self) -> BackendSweeper:
        """Return a worker beside this node."""
        return BackendSweeper(NodeMeta(self.directory, self.backend), DirectCuts(self.binlogs, self.backend), SHOP)

    def binlog_files(self, tablet: str) -> list[str]:
        """Return the names of a tablet's binlog files, sorted."""
        return sorted(p.name for p in (self.directory / tablet / model.FOLDER).iterdir())
