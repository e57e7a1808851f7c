"""The stores of topics over one database and a log, with one-line operations for tests."""

from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import Mode, Pin, Purged, Topic, WalSettings
from sexton.wal.policy import (
    HeartbeatReceipt,
    LeaderReport,
    MapOrder,
    OpenRegionOrder,
    RegionDrop,
    RegionMapping,
    RegionMove,
    Stream,
)
from sexton.wal.purger import Purger
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.leaders import HeartbeatStore, ReplayStore
from sexton.wal.sql.maps import MapStore
from sexton.wal.sql.store import WalStore
from tests.integration.wal.logs import LogPlace

DAY = 86_400
WAL_SETTINGS = WalSettings(
    topic_idle_grace_seconds=DAY, map_stale_seconds=2 * DAY, replay_pin_ttl_seconds=300, replay_pin_max_seconds=1_000
)


class TopicStores:
    """The topics of one deployment, and a log."""

    def __init__(self, db: Database, place: LogPlace) -> None:
        self.db, self.place = db, place
        self.store, self.floors, self.maps = (
            WalStore(db),
            FloorStore(db, WAL_SETTINGS, ControlStore(db)),
            MapStore(db, WAL_SETTINGS),
        )
        self.heartbeats, self.replays = HeartbeatStore(db), ReplayStore(db, WAL_SETTINGS)
        self.purger = Purger(place.log, self.floors)
        self._generation = 0

    def topic(self, entries: int = 0, *, mode: Mode = Mode.DELETE, **options: bool) -> str:
        """Make an enabled topic with this number of entries."""
        name = self.place.topic(**options)  # type: ignore[arg-type]
        if entries:
            self.place.append(name, entries)
        self.store.enable(name, mode, "shop")
        return name

    def mapped_topic(self, entries: int, *regions: str | RegionMapping) -> str:
        """Make an enabled topic with a map that a purge has seen; without regions, r1 needs all of it."""
        name = self.topic(entries)
        self.map(name, *(regions or (RegionMapping(region="r1", first=0),)))
        self.purge(name)
        return name

    def flushed_topic(self, entries: int, **last: int) -> str:
        """Make a topic with these regions, whose map a purge has seen and which have flushed up to these entries."""
        name = self.mapped_topic(entries, *last)
        for region, entry in last.items():
            self.flushed(name, region, entry)
        return name

    def map(
        self,
        topic: str,
        *regions: str | RegionMapping,
        moved: tuple[str | RegionMove, ...] = (),
        dropped: tuple[RegionDrop, ...] = (),
    ) -> Topic:
        """Send the owner's map; a region given by name alone has no first entry."""
        self._generation += 1
        mappings = tuple(r if isinstance(r, RegionMapping) else RegionMapping(region=r) for r in regions)
        moves = tuple(m if isinstance(m, RegionMove) else RegionMove(region=m) for m in moved)
        order = MapOrder(
            instance="shop", topic=topic, generation=self._generation, regions=mappings, moved=moves, dropped=dropped
        )
        return self.maps.put(order)

    def flushed(
        self, topic: str, region: str, last: int | None, idle: int | None = None, *, epoch: int = 0, leader: bool = True
    ) -> HeartbeatReceipt:
        """Send a report of a region with one stream."""
        streams = (Stream(flushed=last, idle=idle),)
        report = LeaderReport(topic=topic, region=region, epoch=epoch, streams=streams, leader=leader)
        return self.heartbeats.record_reports("shop", "node-1", [report])

    def node_reports(
        self, topic: str, node: str, *regions: str, last: int = 99, epoch: int = 0, url: str = ""
    ) -> HeartbeatReceipt:
        """Send a node's report that these regions have flushed up to an entry."""
        streams = (Stream(flushed=last),)
        reports = [LeaderReport(topic=topic, region=region, epoch=epoch, streams=streams) for region in regions]
        return self.heartbeats.record_reports("shop", node, reports, url)

    def report(self, topic: str, region: str, *streams: Stream, epoch: int = 0) -> HeartbeatReceipt:
        """Send a report of a region's leader with several streams."""
        report = LeaderReport(topic=topic, region=region, epoch=epoch, streams=streams)
        return self.heartbeats.record_reports("shop", "node-1", [report])

    def purge(self, topic: str) -> Purged:
        """Purge a topic once."""
        return self.purger.purge([topic])[topic]

    def open(self, topic: str, region: str, flushed: int | None, epoch: int = 1) -> Pin:
        """Open a region."""
        order = OpenRegionOrder(topic=topic, region=region, epoch=epoch, flushed=(flushed,), node="node-1")
        return self.replays.open(order)

    def wait(self, seconds: int) -> None:
        """Move the database's clock."""
        schema.move_clock(self.db, seconds)

    def start(self, topic: str) -> int:
        """Return the topic's first entry."""
        facts = self.place.log.facts([topic])[topic]
        return facts.start  # type: ignore[union-attr]
