"""A heartbeat locks no region of another node, and a renewal of a replay waits for no heartbeat (PostgreSQL)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from sexton.database.engine import Database
from sexton.wal.orders import HeartbeatReceipt, LeaderReport, OpenRegionOrder, RegionMapping, Stream
from sexton.wal.port import RegionOfAnotherNode
from tests.integration.wal.logs import EmbeddedPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter

NODES = {"mapped": "n1", "led": "n1", "own": "n2", "free": ""}
"""The leader of each region."""


@pytest.fixture
def topics(database_url: str) -> Iterator[TopicStores]:
    db = Database.open(database_url)
    yield TopicStores(db, EmbeddedPlace(db))
    db.close()


@pytest.fixture
def topic(topics: TopicStores) -> str:
    """A topic whose regions other nodes lead by the map, by their reports, or not at all."""
    mapped = {"mapped": "n1", "own": "n2"}
    name = topics.mapped_topic(100, *(RegionMapping(region=r, first=0, node=mapped.get(r, "")) for r in NODES))
    report(topics, name, "n1", "led", last=9)
    return name


def report(topics: TopicStores, topic: str, node: str, *regions: str, last: int) -> HeartbeatReceipt:
    reports = [LeaderReport(topic=topic, region=r, epoch=0, streams=(Stream(flushed=last),)) for r in regions]
    return topics.heartbeats.record_reports("shop", node, reports)


def needs(topics: TopicStores, topic: str) -> dict[str, int | None]:
    return {region.region: region.keep_from for region in topics.store.regions(topic)}


def while_locked(topics: TopicStores, names: tuple[str, ...], do: Callable[[], object]) -> None:
    """Run a function in another thread while a transaction has locked these regions."""
    r = topics.db.t.wal_region
    with ThreadPoolExecutor(1) as pool, topics.db.write() as c:
        c.execute(select(r.c.region).where(r.c.region.in_(names)).with_for_update())
        pool.submit(do).result(PATIENCE_SECONDS)


def test_heartbeat_locks_no_region_of_another_node(topics: TopicStores, topic: str) -> None:
    def send() -> None:
        with pytest.raises(RegionOfAnotherNode, match="is node n1's, not n2's"):
            report(topics, topic, "n2", *NODES, last=49)

    while_locked(topics, ("mapped", "led"), send)

    assert needs(topics, topic) == {"mapped": 0, "led": 10, "own": 50, "free": 50}


def test_region_given_away_meanwhile_is_not_reported(topics: TopicStores, topic: str) -> None:
    r = topics.db.t.wal_region
    with ThreadPoolExecutor(1) as pool:
        with topics.db.write() as c:
            c.execute(r.update().where(r.c.region == "own").values(mapped_node="n1"))
            sending = pool.submit(report, topics, topic, "n2", "free", "own", last=49)
            wait_for_lock_waiter(topics.db)
        with pytest.raises(RegionOfAnotherNode, match=r"region own .* is node n1's, not n2's"):
            sending.result(PATIENCE_SECONDS)

    assert needs(topics, topic) == {"mapped": 0, "led": 10, "own": 0, "free": 50}


def test_renewal_waits_for_no_heartbeat(topics: TopicStores, topic: str) -> None:
    pin = topics.replays.open(OpenRegionOrder(topic=topic, region="own", epoch=1, flushed=(None,), node="n2"))

    while_locked(topics, tuple(NODES), lambda: topics.replays.renew(pin.id))

    assert topics.replays.find(pin.id) is not None
