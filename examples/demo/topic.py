"""A topic shrinks: regions of minidb append to one log, and what all of them have flushed is purged from it.

What must be there is counted from what minidb acknowledged and flushed; what is there, plain SQL reads from the log.
"""

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from examples.demo.console import Console
from examples.demo.world import World
from examples.minidb.maps import Maps
from examples.minidb.node import Node
from examples.minidb.regions import Rows
from examples.minidb.serving import serving
from sexton.client import Sexton
from sexton.database.engine import Database
from sexton.wal.sql.embedded_log import EmbeddedLog

BUSY = ("orders", "clicks", "users")
LAGGING = "audit"
"""It writes little, so its memory is never full and it never flushes by itself."""
REGIONS = (*BUSY, LAGGING)
TURNS, ROWS, FEW = 12, 100, 5
SLACK = 1
"""One entry below the floor stays, so that a reader finds that it begins where it must."""


class Shrinking:
    """One topic, and a node with its regions; all of it ends with the block."""

    def __init__(self, console: Console, world: World, directory: Path) -> None:
        """Make the topic, the tokens and the node; it serves on a port of this machine.

        Args:
            console: where it is shown.
            world: whose database, API and name are used.
            directory: for files and manifests of regions.
        """
        self._console, self.topic = console, f"{world.instance}-wal"
        self._flushed: dict[str, int] = {}
        """By region the last entry that was flushed."""
        self._acknowledged: dict[str, Rows] = {region: {} for region in REGIONS}
        self._closing = ExitStack()
        url = world.environment["SEXTON_DATABASE_URL"]
        self._file = Path(url.removeprefix("sqlite:///"))
        database = Database.open(url)
        self._closing.callback(database.close)
        log = EmbeddedLog(database)
        log.create(self.topic)
        name = f"{world.instance}-node"
        owner, node = (self._client(world, scope) for scope in ("operate", f"node:{name}"))
        its = directory / world.instance
        its.mkdir(parents=True)
        self._node = Node(name, node, log, Maps(owner, log, its / "maps.json"), its)
        self._closing.enter_context(serving(self._node))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def fill(self) -> None:
        """Regions append and flush; the lagging one does not flush."""
        for region in REGIONS:
            self._node.create(region, self.topic)
        for turn in range(TURNS):
            self._append()
            if turn < TURNS - 1:  # what came last is in memory
                self._flush(*BUSY)
        self._node.heartbeat()
        self._console.same("entries appended", set(self._ids()), set(self._in_log()))
        self._console.say(f"  {len(self._ids()):,} entries: {self._counts()}; {LAGGING} has never flushed")

    def explain(self) -> None:
        """Purges are off until somebody turns them on; who holds a topic everybody can see."""
        self._console.sexton("wal", "enable", self.topic)
        for line in self._console.sexton("wal", "explain", self.topic).splitlines():
            self._console.say(f"  {line}".rstrip(" ─"))

    def purge(self) -> None:
        """One real purge: the lagging region is asked to flush, over HTTP, and does; then the topic can shrink."""
        before = self._in_log()
        report = self._console.sexton_json("wal", "purge", self.topic)
        left = self._in_log()
        self._flushed[LAGGING] = max(self._acknowledged[LAGGING])[1]
        # Who has nothing in memory needs nothing of what is there.
        needs = min(last for region, last in self._flushed.items() if region != LAGGING) + 1
        gone = set(before) - set(left)
        self._console.same("wal purge: outcome", "PURGED", report["outcome"])
        self._console.same("regions asked to flush, and flushed", (1, 1), _asked(report["flushed"]))
        self._console.same("last_purged_entry_id", needs - 1, report["purged"]["floor"] - 1)
        self._console.same("entries left", set(range(needs - SLACK, len(before))), set(left))
        self._console.same("entries freed", len(gone), report["purged"]["freed"])
        in_files = {i for region, last in self._flushed.items() for i in self._ids(region) if i <= last}
        self._console.same("entries purged that are in no file", set(), gone - in_files)
        self._console.say(f"  region {LAGGING} was asked to flush at {self._node.url}, and did")
        self._console.say(
            f"  {len(before):,} entries were there, {len(left):,} are left; each of the {len(gone):,} is in a file"
        )

    def crash(self) -> None:
        """All memory of the node is gone; its regions open with what their files and the topic have."""
        self._append()
        lost = sum(len([i for i in self._ids(region) if i > last]) for region, last in self._flushed.items())
        self._node.crash()
        for region in REGIONS:
            self._node.open(region, epoch=2)
        for region, rows in self._acknowledged.items():
            self._console.same(f"rows of region {region}, after the crash", rows, self._node.rows(region))
        self._console.say(f"  {lost:,} rows were only in memory; they are back, out of {len(self._in_log()):,} entries")
        self._console.say(f"  every row that was ever acknowledged is there: {self._counts()}")

    def _append(self) -> None:
        for region in REGIONS:
            its = self._acknowledged[region]
            rows = [f"{region} {len(its) + n}" for n in range(FEW if region == LAGGING else ROWS)]
            last = self._node.append(region, *rows)
            its |= {(self.topic, last - len(rows) + 1 + n): row for n, row in enumerate(rows)}

    def _flush(self, *regions: str) -> None:
        self._node.flush(*regions)
        self._flushed |= {region: max(self._acknowledged[region])[1] for region in regions}

    def _ids(self, *regions: str) -> list[int]:
        """Return the entries that were acknowledged, of some regions or of all."""
        return [id_ for region in regions or REGIONS for _, id_ in self._acknowledged[region]]

    def _counts(self) -> str:
        return ", ".join(f"{region} {len(rows):,}" for region, rows in self._acknowledged.items())

    def _in_log(self) -> list[int]:
        """Read the log without Sexton."""
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as c:
            return [id_ for (id_,) in c.execute("SELECT id FROM sexton_wal_entry WHERE topic = ?", (self.topic,))]

    def _client(self, world: World, scope: str) -> Sexton:
        token = self._console.sexton_json("token", "create", "--scope", scope, "--days", "1")["token"]
        return self._closing.enter_context(Sexton(f"http://{world.environment['SEXTON_API__LISTEN']}", token))


def _asked(flushed: dict[str, int]) -> tuple[int, int]:
    return flushed["asked"], flushed["flushed"]
