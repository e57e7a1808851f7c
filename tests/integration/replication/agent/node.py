"""A storage node's directory and meta store, written as the node writes them, and a source of granted cuts."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sexton.replication.agent import model
from sexton.replication.agent.meta import SqliteMeta
from sexton.replication.agent.model import CutDone, GrantedCut, GrantedCutPage, SweepOrder, Swept
from sexton.replication.agent.sweeping import BackendSweeper
from tests.integration.replication.node_meta import NodeMeta, data_key, meta_key

BYTES = 10


class CutSource:
    """A source of cuts that grants each until it is acknowledged; ``answers`` has all acknowledgements."""

    def __init__(self, page: int = 100) -> None:
        self._page, self.cuts, self.answers = page, dict[str, GrantedCut](), list[CutDone]()
        self.more: list[GrantedCut] = []

    def grant(self, uid: str, version: int, tablet: str = "") -> None:
        self.cuts[uid] = GrantedCut(uid=uid, tablet=tablet or f"t{uid}", version=version)

    def page(self, after: str) -> GrantedCutPage:
        waiting = sorted(uid for uid in self.cuts if uid > after)
        page = waiting[: self._page]
        cuts = [*(self.cuts[uid] for uid in page), *self.more]
        return GrantedCutPage(cuts, page[-1] if len(waiting) > len(page) else "")

    def acknowledge(self, done: Sequence[CutDone]) -> None:
        self.answers += done
        for removed in done:
            if removed.uid in self.cuts and removed.version >= self.cuts[removed.uid].version:
                del self.cuts[removed.uid]

    def outcomes(self) -> dict[str, tuple[str, int]]:
        """Return the last acknowledgement of each tablet: uid → (outcome, version)."""
        return {a.uid: (a.outcome, a.version) for a in self.answers}


class Node:
    """The storage node of backend ``7``; keys and files are read without the code under test."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.granted = directory, CutSource()
        self.meta = NodeMeta.create(directory, "7")

    def tablet(self, uid: str, path: str = "") -> Path:
        path = path or f"data/{uid}"
        folder = self.directory / path / model.FOLDER
        folder.mkdir(parents=True)
        self.meta.put({model.tablet_key(uid): json.dumps({"tablet": f"t{uid}", "path": path}).encode()})
        return folder

    def binlog(self, uid: str, version: int, segments: int = 1, rowset: str = "", **value: object) -> None:
        rowset = rowset or f"r{version}"
        entry = {"version": version, "tablet_id": f"t{uid}", "num_segments": segments, "rowset_id_v2": rowset} | value
        for n in range(segments):
            (self.directory / "data" / uid / model.FOLDER / f"{rowset}_{n}.dat").write_bytes(b"x" * BYTES)
        raw = json.dumps({k: v for k, v in entry.items() if v is not None}).encode()
        self.meta.put({meta_key(uid, version, rowset): raw, data_key(uid, version, rowset): b"{}"})

    def sweeper(self, keys: int = 1_000, instance: str = "", busy_seconds: float = 0.2) -> BackendSweeper:
        """Return the worker of this node as it is after a start."""
        return BackendSweeper(SqliteMeta(self.directory, "7", busy_seconds), self.granted, instance, keys)

    def sweep(self, keys: int = 1_000, order: SweepOrder | None = None) -> Swept:
        return self.sweeper(keys).sweep(lambda: None, order)

    def keys(self) -> list[str]:
        with closing(sqlite3.connect(self.directory / "meta.db")) as c:
            return [key for (key,) in c.execute("SELECT key FROM entry WHERE key LIKE 'binlog%' ORDER BY key")]

    def versions(self, uid: str) -> list[int]:
        """Return the versions that have both keys."""
        parts = [key.split("_") for key in self.keys()]
        kinds = [{(k[3], k[4]) for k in parts if k[1] == kind and k[2] == uid} for kind in ("meta", "data")]
        assert kinds[0] == kinds[1]
        return sorted(int(version) for version, _ in kinds[0])

    def files(self, uid: str) -> list[str]:
        return sorted(p.name for p in (self.directory / "data" / uid / model.FOLDER).iterdir())
