"""A topic of the embedded log, as its owner and a node make it."""

from collections.abc import Iterable, Mapping

from sexton.database.engine import Database
from sexton.wal.model import Mode, WalSettings
from sexton.wal.policy import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.sql.embedded_log import EmbeddedLog
from sexton.wal.sql.leaders import HeartbeatStore
from sexton.wal.sql.maps import MapStore
from sexton.wal.sql.store import WalStore


def make_topic(
    db: Database, name: str, entries: int, flushed: Mapping[str, int | None], *, enabled: bool = True, size: int = 5
) -> EmbeddedLog:
    """Create a topic of instance ``shop`` with entries of some bytes; return its log.

    Args:
        db: the database.
        name: of the topic.
        entries: how many.
        flushed: region → the last entry that it has flushed, None: it has not reported.
        enabled: whether the topic is purged.
        size: bytes of an entry.
    """
    log = EmbeddedLog(db)
    log.create(name)
    map_regions(db, name, flushed)
    log.append(name, [b"x" * size] * entries)
    if enabled:
        WalStore(db).enable(name, Mode.DELETE, "shop")
    for region, last in flushed.items():
        if last is not None:
            report_flushed(db, name, region, last)
    return log


def map_regions(db: Database, topic: str, regions: Iterable[str], node: str = "") -> None:
    """Send the owner's first map of a topic, which needs each region from its first entry on; ``node`` leads them."""
    mapped = tuple(RegionMapping(region=region, first=0, node=node) for region in regions)
    MapStore(db, WalSettings()).put(MapOrder(instance="shop", topic=topic, generation=1, regions=mapped))


def report_flushed(db: Database, topic: str, region: str, last: int, url: str = "", node: str = "n1") -> None:
    """Send a node's report that a region has flushed up to an entry; ``url``: where the node listens."""
    report = LeaderReport(topic=topic, region=region, epoch=0, streams=(Stream(flushed=last),))
    HeartbeatStore(db).record_reports("shop", node, [report], url)
