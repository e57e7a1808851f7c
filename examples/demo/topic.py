"""Tell the story of a topic: regions append to one log, and entries that every region has flushed are purged from it.

What must be in the log is computed from what minidb acknowledged and flushed; plain SQL reads what is in it.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psycopg

from examples.demo.console import Console
from examples.demo.ending import Sight
from examples.demo.world import World
from examples.minidb.maps import Maps
from examples.minidb.node import Node
from examples.minidb.regions import Rows
from examples.minidb.serving import serving
from sexton.client import Sexton
from sexton.database.engine import Database
from sexton.wal.sql.embedded_log import EmbeddedLog

SMALL_LAG = {"SEXTON_WAL__TRIGGER_FLUSH_ENTRIES": "1000"}
"""For workers and commands: by default, only a region with a million unflushed entries is requested to flush."""
BUSY = ("orders", "clicks", "users")
LAGGING = "audit"
"""It writes little, so its memory is never full and it never flushes by itself."""
REGIONS = (*BUSY, LAGGING)
TURNS, ROWS, FEW_ROWS = 12, 100, 5
SLACK = 1
"""One entry below the floor stays, so that a reader can verify where the log begins."""


def shrink_topic(console: Console, world: World, home: Path) -> list[Sight]:
    """Show the part; return rows of the table at the end."""
    console.act("Fear: one idle region makes a shared write-ahead log grow without end")
    with TopicStory(console, world, home / "regions") as story:
        story.fill()
        story.explain()
        story.purge()
        console.act("Fear: the purge removed entries that a crashed node still needs")
        story.crash()
        return [
            Sight("all topics", "sexton wal list", "wal-integration.md"),
            Sight("blocking regions", f"sexton wal explain {story.topic}", "wal-integration.md"),
        ]


class TopicStory:
    """One topic, and a node with its regions; the node ends with the block."""

    def __init__(self, console: Console, world: World, directory: Path) -> None:
        """Create the topic, the tokens and the node; it serves on a port of this machine.

        Args:
            console: where it is shown.
            world: whose database, API and instance are used.
            directory: for files and manifests of regions.
        """
        self._console, self._instance, self.topic = console, world.instance, f"{world.instance}-wal"
        self._flushed: dict[str, int] = {}
        """By region: the last entry that was flushed."""
        self._acknowledged: dict[str, Rows] = {region: {} for region in REGIONS}
        self._closing = ExitStack()
        self._url = world.environment["SEXTON_DATABASE_URL"]
        database = Database.open(self._url)
        self._closing.callback(database.close)
        log = EmbeddedLog(database)
        log.create(self.topic)
        name = f"{world.instance}-node"
        owner, node = self._clients(world, f"owner@{world.instance}", f"node:{name}@{world.instance}")
        node_directory = directory / world.instance
        node_directory.mkdir(parents=True)
        self._node = Node(name, node, log, Maps(owner, log, node_directory / "maps.json"), node_directory)
        self._closing.enter_context(serving(self._node))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def fill(self) -> None:
        """Append to all regions and flush them, except the lagging one."""
        for region in REGIONS:
            self._node.create(region, self.topic)
        for turn in range(TURNS):
            self._append()
            if turn < TURNS - 1:  # the last entries stay in memory
                self._flush(*BUSY)
        self._node.heartbeat()
        self._console.same("entries appended", set(self._ids()), set(self._logged()))
        self._console.say(f"{len(self._ids()):,} entries: {self._counts()}.")
        self._console.say(f"Region {LAGGING} has never flushed.")

    def explain(self) -> None:
        """Turn purges on for the topic, which is off by default, and show which region blocks it."""
        self._console.sexton("wal", "enable", self.topic, "--instance", self._instance)
        self._console.show(self._console.sexton("wal", "explain", self.topic))

    def purge(self) -> None:
        """Purge once: the lagging region is requested over HTTP to flush, and does; then the topic can shrink."""
        before = self._logged()
        report = self._console.sexton_json("wal", "purge", self.topic)
        after = self._logged()
        self._flushed[LAGGING] = max(self._acknowledged[LAGGING])[1]
        # A region with nothing in memory needs no entry of the log, so it does not count.
        first_needed = min(last for region, last in self._flushed.items() if region != LAGGING) + 1
        purged = set(before) - set(after)
        flushes = (report["flushed"]["asked"], report["flushed"]["flushed"])
        self._console.same("wal purge: outcome", "PURGED", report["outcome"])
        self._console.same("regions requested to flush, and flushed", (1, 1), flushes)
        self._console.same("last_purged_entry_id", first_needed - 1, report["purged"]["floor"] - 1)
        self._console.same("entries left", set(range(first_needed - SLACK, len(before))), set(after))
        self._console.same("entries freed", len(purged), report["purged"]["freed"])
        in_files = {i for region, last in self._flushed.items() for i in self._ids(region) if i <= last}
        self._console.same("entries purged that are in no file", set(), purged - in_files)
        self._console.say(f"Sexton requests region {LAGGING} to flush, over HTTP, and it does.")
        self._console.say(f"Seen: {len(purged):,} of {len(before):,} entries are purged; each of them is in a file.")

    def crash(self) -> None:
        """Lose all memory of the node; its regions open with their files and the topic."""
        self._append()
        lost = sum(len([i for i in self._ids(region) if i > last]) for region, last in self._flushed.items())
        self._node.crash()
        for region in REGIONS:
            self._node.open(region, epoch=2)
        for region, rows in self._acknowledged.items():
            self._console.same(f"rows of region {region}, after the crash", rows, self._node.rows(region))
        self._console.say(f"The node crashes: {lost:,} rows were only in its memory.")
        self._console.say("Seen: every acknowledged row is back, from files and from the topic.")

    def _append(self) -> None:
        for region in REGIONS:
            acknowledged = self._acknowledged[region]
            rows = [f"{region} {len(acknowledged) + n}" for n in range(FEW_ROWS if region == LAGGING else ROWS)]
            last = self._node.append(region, *rows)
            acknowledged |= {(self.topic, last - len(rows) + 1 + n): row for n, row in enumerate(rows)}

    def _flush(self, *regions: str) -> None:
        self._node.flush(*regions)
        self._flushed |= {region: max(self._acknowledged[region])[1] for region in regions}

    def _ids(self, *regions: str) -> list[int]:
        """Return the acknowledged entries of some regions, or of all."""
        return [entry for region in regions or REGIONS for _, entry in self._acknowledged[region]]

    def _counts(self) -> str:
        return ", ".join(f"{region} {len(rows):,}" for region, rows in self._acknowledged.items())

    def _logged(self) -> list[int]:
        """Read the entries of the log with plain SQL."""
        with psycopg.connect(self._url) as c:
            return [entry for (entry,) in c.execute("SELECT id FROM sexton.wal_entry WHERE topic = %s", (self.topic,))]

    def _clients(self, world: World, *scopes: str) -> list[Sexton]:
        tokens = self._console.tokens(*scopes)
        url = f"http://{world.environment['SEXTON_API__LISTEN']}"
        return [self._closing.enter_context(Sexton(url, token)) for token in tokens]
