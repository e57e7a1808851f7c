"""A node that holds regions, and all that it says to Sexton: heartbeats, and replays where a region is opened.

What to look at is the order in which things happen; each comment says what would be lost in another one.
"""

from collections.abc import Sequence
from pathlib import Path

from examples.minidb.logs import Log, TopicSource, end, row_of
from examples.minidb.manifests import MANIFEST, Manifest, sync
from examples.minidb.maps import Maps
from examples.minidb.regions import Closed, Region, Rows
from examples.minidb.rowsets import MiniDBError
from sexton.client import Heartbeat, RegionReport, RequestRefused, Sexton, StreamReport


class Node:
    """One node. Its memory goes with it; files and manifests stay in its directory."""

    def __init__(self, name: str, client: Sexton, log: Log, maps: Maps, directory: Path) -> None:
        """It holds no region yet.

        Args:
            name: of the node.
            client: with a token of scope ``node:NAME``.
            log: where the topics are.
            maps: of the meta service.
            directory: in which each region has one of its own.
        """
        self.name, self.url = name, ""
        self._client, self._log, self._maps, self._directory = client, log, maps, directory
        self._regions: dict[str, Region] = {}

    def create(self, region: str, topic: str) -> None:
        """Make a region that appends to a topic, and open it."""
        directory = self._directory / region
        if (directory / MANIFEST).exists():
            raise MiniDBError(f"there is a region {region}, or was")
        # Before its first append: what is in no map is purged as if it were nobody's.
        self._maps.begin(region, topic)
        directory.mkdir(parents=True, exist_ok=True)
        sync(self._directory)
        Manifest(topic, {topic: None}).save(directory)
        # With a replay that finds nothing: now Sexton knows which node it may ask to flush.
        self.open(region, epoch=1)

    def open(self, region: str, epoch: int) -> None:
        """Open a region as its new leader: its files, and what of each topic is in none of them.

        Args:
            region: which.
            epoch: higher than any before; what a leader before it still says does not count any more.

        Raises:
            MiniDBError: it is open, has no manifest here, or is in no map.
            ReplayRefused, OldEpoch, ReplayLost, Unreachable, RequestRefused: of ``client.replay``; it stays closed,
                and has lost nothing that it had.
        """
        directory = self._directory / region
        if region in self._regions:
            raise MiniDBError(f"region {region} is open")
        manifest, memory = Manifest.load(directory).mapped(self._maps.of(region)), Rows()
        self._leave(region, manifest.home)  # where a crash came before that was said
        for topic in manifest.flushed:
            try:
                memory |= self._replay(region, epoch, manifest, topic)
            except RequestRefused as e:
                if e.code != "UNKNOWN_REGION" or topic not in manifest.left:
                    raise
                # All that it had there is in files, and Sexton has let it go: the only place where that is seen.
                self._maps.forget(region, topic)
                manifest = manifest.without(topic)
        manifest.save(directory)
        # Only now, with all rows in memory: a heartbeat before would have called it idle.
        self._regions[region] = Region(region, directory, self._log, epoch, manifest, memory)

    def append(self, region: str, *rows: str) -> int:
        """Write rows, acknowledged when this returns; return the last one's entry id. Raises as ``Region.append``."""
        return self._open(region).append(*rows)

    def flush(self, *regions: str) -> None:
        """Bring what regions have in memory into files; the next heartbeat says so. One that is closed has nothing."""
        for name in regions:
            if (its := self._regions.get(name)) is not None:
                its.flush()

    def beat(self) -> None:
        """Say how far each region is in each of its topics. A real node does so every few seconds."""
        reports = [r for its in list(self._regions.values()) for r in self._reports(its)]
        self._client.heartbeat(self.name, Heartbeat(url=self.url, reports=tuple(reports)))

    def move(self, region: str, topic: str) -> None:
        """Let a region append to another topic. Cut off in between, ask for it again."""
        its = self._open(region)
        if its.manifest.home != topic:
            self._maps.begin(region, topic)  # before its first append there
            its.move(topic)
        self._leave(region, topic)

    def drop(self, region: str, undrop_seconds: int = 0) -> None:
        """Drop a region. For so long it could come back, and its entries stay; its files are not looked at here."""
        if (its := self._regions.pop(region, None)) is not None:
            its.close()
        self._maps.drop(region, undrop_seconds)

    def crash(self) -> None:
        """Lose all memory, as ``kill -9`` does."""
        for its in self._regions.values():
            its.close()
        self._regions = {}

    def rows(self, region: str) -> Rows:
        """Return all rows of a region, as a reader sees them."""
        return self._open(region).rows()

    def _leave(self, region: str, home: str) -> None:
        """Say where a region appends no more: its last append there was answered before."""
        for topic, state in self._maps.of(region).items():
            if state == "here" and topic != home:
                self._maps.leave(region, topic)

    def _replay(self, region: str, epoch: int, manifest: Manifest, topic: str) -> Rows:
        """Return the region's rows that are in a topic and in none of its files."""
        flushed, found = manifest.flushed[topic], Rows()
        with self._client.replay(
            topic, region, epoch=epoch, flushed=[flushed], node=self.name, source=TopicSource(self._log, topic)
        ) as entries:
            # Every entry comes, other regions' too. What is in a file is not taken twice, wherever the replay begins.
            for entry in entries:
                row = row_of(region, entry.value)
                if row is not None and (flushed is None or entry.id > flushed):
                    found[topic, entry.id] = row
        return found

    def _reports(self, region: Region) -> Sequence[RegionReport]:
        return [self._report(region, topic) for topic in region.manifest.flushed]

    def _report(self, region: Region, topic: str) -> RegionReport:
        # The topic's end first, and then the look whether anything is in memory or under way. An append in between is
        # behind that end, and one before it is seen. The other way round it is in neither: the mark would be above an
        # entry that only memory has, and a purge would take it.
        last = end(self._log, topic) - 1
        flushed, busy = region.seen(topic)
        idle = None if busy or last < 0 else last
        streams = (StreamReport(flushed=flushed, idle=idle),)
        return RegionReport(topic=topic, region=region.name, epoch=region.epoch, streams=streams)

    def _open(self, region: str) -> Region:
        found = self._regions.get(region)
        if found is None:
            raise Closed(f"region {region} is not open on node {self.name}")
        return found
