"""A node that holds regions, and its calls to Sexton: heartbeats, and replays when a region is opened.

The order of steps is what matters; each comment says what another order would lose.
"""

from collections.abc import Sequence
from pathlib import Path

from examples.minidb.logs import Log, TopicSource, end, row_of
from examples.minidb.manifests import MANIFEST, Manifest, sync
from examples.minidb.maps import Maps
from examples.minidb.regions import Closed, Region, Rows
from examples.minidb.rowsets import MiniDBError
from sexton.client import Heartbeat, LeaderReport, RequestRefused, Sexton, Stream


class Node:
    """One node. A crash loses its memory; files and manifests stay in its directory."""

    def __init__(self, name: str, client: Sexton, log: Log, maps: Maps, directory: Path) -> None:
        """Start without regions.

        Args:
            name: of the node.
            client: with a token of scope ``node:NAME@INSTANCE``.
            log: where the topics are.
            maps: of the meta service.
            directory: contains a directory for each region.
        """
        self.name, self.url = name, ""
        self._client, self._log, self._maps, self._directory = client, log, maps, directory
        self._regions: dict[str, Region] = {}

    def create(self, region: str, topic: str) -> None:
        """Create a region that appends to a topic, and open it."""
        directory = self._directory / region
        if (directory / MANIFEST).exists():
            raise MiniDBError(f"region {region} exists already, or existed before")
        # Before its first append: entries of a region that no map names are purged.
        self._maps.begin(region, topic, self.name)
        directory.mkdir(parents=True, exist_ok=True)
        sync(self._directory)
        Manifest(topic, {topic: None}).save(directory)
        # The replay finds nothing, and Sexton learns from it which node to ask to flush.
        self.open(region, epoch=1)

    def open(self, region: str, epoch: int) -> None:
        """Open a region as its new leader: read its files, and the entries of each topic that no file has.

        Args:
            region: its name.
            epoch: higher than any before; reports of earlier leaders no longer count.

        Raises:
            MiniDBError: it is open, has no manifest here, or is in no map.
            ReplayRefused, OldEpoch, ReplayLost, Unreachable, RequestRefused: of ``client.replay``; it stays closed,
                and keeps all its rows.
        """
        directory = self._directory / region
        if region in self._regions:
            raise MiniDBError(f"region {region} is open")
        manifest, memory = Manifest.load(directory).mapped(self._maps.of(region)), Rows()
        self._leave(region, manifest.home)  # in case a crash came before the map was sent
        # First: only the node that the map names opens the region and reports it. Sexton refuses every other one.
        self._maps.lead(region, self.name)
        for topic in manifest.flushed:
            try:
                memory |= self._replay(region, epoch, manifest, topic)
            except RequestRefused as e:
                if e.code != "UNKNOWN_REGION" or topic not in manifest.left:
                    raise
                # All its rows of this topic are in files, and Sexton has released it: this is where the node learns it.
                self._maps.forget(region, topic)
                manifest = manifest.without(topic)
        manifest.save(directory)
        # Only now, with all rows in memory: an earlier heartbeat would have reported the region as idle.
        self._regions[region] = Region(region, directory, self._log, epoch, manifest, memory)

    def append(self, region: str, *rows: str) -> int:
        """Write rows, acknowledged when this returns; return the last one's entry id. Raises as ``Region.append``."""
        return self._open(region).append(*rows)

    def flush(self, *regions: str) -> None:
        """Write the rows in memory of open regions to files; the next heartbeat reports it."""
        for name in regions:
            if (open_region := self._regions.get(name)) is not None:
                open_region.flush()

    def heartbeat(self) -> None:
        """Report how far each region has flushed in each of its topics. A real node does so every few seconds."""
        reports = [r for open_region in list(self._regions.values()) for r in self._reports(open_region)]
        self._client.heartbeat(self.name, Heartbeat(url=self.url, reports=tuple(reports)))

    def move(self, region: str, topic: str) -> None:
        """Make a region append to another topic. After an interruption, repeat the call."""
        open_region = self._open(region)
        if open_region.manifest.home != topic:
            self._maps.begin(region, topic, self.name)  # before its first append there
            open_region.move(topic)
        self._leave(region, topic)

    def drop(self, region: str, undrop_seconds: int = 0) -> None:
        """Drop a region. While the drop can be undone its entries stay; its files are not part of this example."""
        if (open_region := self._regions.pop(region, None)) is not None:
            open_region.close()
        self._maps.drop(region, undrop_seconds)

    def crash(self) -> None:
        """Lose all memory, as ``kill -9`` does."""
        for open_region in self._regions.values():
            open_region.close()
        self._regions = {}

    def rows(self, region: str) -> Rows:
        """Return all rows of a region, as a reader sees them."""
        return self._open(region).rows()

    def _leave(self, region: str, home: str) -> None:
        """Map a region as moved away from its other topics: its last appends there were answered before."""
        for topic, state in self._maps.of(region).items():
            if state == "here" and topic != home:
                self._maps.leave(region, topic, self.name)

    def _replay(self, region: str, epoch: int, manifest: Manifest, topic: str) -> Rows:
        """Return the region's rows of a topic that no file has."""
        flushed, rows = manifest.flushed[topic], Rows()
        with self._client.replay(
            topic, region, epoch=epoch, flushed=[flushed], node=self.name, source=TopicSource(self._log, topic)
        ) as entries:
            # The replay yields every entry, other regions' too. Rows that a file has are not taken twice.
            for entry in entries:
                row = row_of(region, entry.value)
                if row is not None and (flushed is None or entry.id > flushed):
                    rows[topic, entry.id] = row
        return rows

    def _reports(self, region: Region) -> Sequence[LeaderReport]:
        return [self._report(region, topic) for topic in region.manifest.flushed]

    def _report(self, region: Region, topic: str) -> LeaderReport:
        # Read the topic's end first, and check then whether anything is in memory or under way. An append in between is
        # behind that end, and the check sees an earlier one. In the other order neither would show it: the mark would
        # be above an entry that only memory has, and a purge would delete it.
        last = end(self._log, topic) - 1
        flushed, busy = region.seen(topic)
        idle = None if busy or last < 0 else last
        streams = (Stream(flushed=flushed, idle=idle),)
        return LeaderReport(topic=topic, region=region.name, epoch=region.epoch, streams=streams)

    def _open(self, region: str) -> Region:
        open_region = self._regions.get(region)
        if open_region is None:
            raise Closed(f"region {region} is not open on node {self.name}")
        return open_region
