"""Two topics, a node of minidb that appends to them, and Sexton, which purges them over entries real API."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from examples.minidb.maps import Maps
from examples.minidb.node import Node
from examples.minidb.regions import Rows
from sexton.client import Facts, Sexton
from sexton.wal.model import Mode, WalSettings
from sexton.wal.port import LogFault
from sexton.wal.sql.embedded_log import EmbeddedLog
from sexton.wal.wal import WalService
from tests.servers.api import Api
from tests.support.rig import Rig

A, B = "wal-a", "wal-b"


class HookedLog(EmbeddedLog):
    """The embedded log with two hooks, which run once: before it returns facts, and after it appended."""

    before_facts: Callable[[], object] | None = None
    appended: Callable[[], object] | None = None

    def append(self, topic: str, payloads: Sequence[bytes]) -> int:
        first, hook, self.appended = super().append(topic, payloads), self.appended, None
        if hook is not None:
            hook()
        return first

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        hook, self.before_facts = self.before_facts, None
        if hook is not None:
            hook()
        return super().facts(topics)


class Regions:
    """Two topics, a node with regions, and Sexton, which purges."""

    def __init__(self, rig: Rig, api: Api, directory: Path) -> None:
        self.log, self.wal = HookedLog(rig.db), WalService(rig.db, WalSettings(trigger_flush_entries=10), rig.controls)
        for topic in (A, B):
            self.log.create(topic)
            self.wal.store.enable(topic, Mode.DELETE, "shop")
        self.api = api
        self.owner, self.client = Sexton(api.url, api.token("owner@shop")), Sexton(api.url, api.token("node:n1@shop"))
        self.maps, self.directory = Maps(self.owner, self.log, directory / "maps.json"), directory
        self.node = Node("n1", self.client, self.log, self.maps, directory)
        self.acknowledged: dict[str, Rows] = {}

    def append(self, region: str, count: int = 1, topic: str = A) -> int:
        """Append rows; return the entry id of the last one."""
        rows = [f"{region} {n}" for n in range(count)]
        last = self.node.append(region, *rows)
        entries = {(topic, last - count + 1 + n): row for n, row in enumerate(rows)}
        self.acknowledged[region] = self.acknowledged.get(region, {}) | entries
        return last

    def purge(self, topic: str = A) -> int:
        """Send the node's heartbeat and purge; return the floor."""
        self.node.heartbeat()
        self.wal.purger.preview([topic])  # Sexton did not know the end of the topic
        self.node.heartbeat()
        return self.wal.purger.purge([topic])[topic].floor or 0

    def reopen(self, *regions: str, epoch: int = 2) -> None:
        """Crash the node, and open regions again."""
        self.node.crash()
        for region in regions:
            self.node.open(region, epoch)

    def are_complete(self, *regions: str) -> bool:
        """Return whether regions have exactly the acknowledged rows."""
        return all(self.node.rows(r) == self.acknowledged.get(r, {}) for r in regions)

    def readable_entries(self, topic: str = A) -> list[int]:
        """Return the entries that a plain reader finds."""
        facts = self.log.facts([topic])[topic]
        assert isinstance(facts, Facts)
        return [id_ for id_, _ in self.log.read(topic, facts.start)]

    def mapped(self, topic: str) -> list[str]:
        """Return the regions that are mapped to a topic."""
        return [r.region for r in self.wal.store.regions(topic)]
