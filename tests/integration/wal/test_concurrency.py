"""Concurrent reports, maps, resets and purges of the same topics all end without a deadlock."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sexton.database import engine
from sexton.database.engine import Database
from sexton.wal.model import Mode
from sexton.wal.policy import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.port import Step
from sexton.wal.purger import Purger
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.logs import EmbeddedPlace
from tests.integration.wal.topic_stores import TopicStores

ROUNDS, REGIONS = 8, 200
TOPICS = ("wal-x", "wal-y")


@pytest.fixture
def topics(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TopicStores]:
    # A lock is waited for as long as a slow machine needs; PostgreSQL ends a deadlock whatever the limit.
    monkeypatch.setattr(engine, "OPTIONS", f"{engine.OPTIONS} -c lock_timeout=120000")
    db = Database.open(database_url)
    yield TopicStores(db, EmbeddedPlace(db))
    db.close()


@pytest.mark.slow
def test_concurrent_heartbeats_maps_resets_and_purges_all_end(topics: TopicStores) -> None:
    log = topics.place.log
    names = [f"r{n:03}" for n in range(REGIONS)]
    for topic in TOPICS:
        log.create(topic)  # type: ignore[attr-defined]
        log.append(topic, [b"entry"] * 1_000)  # type: ignore[attr-defined]
        topics.store.enable(topic, Mode.DELETE, "shop")
        topics.map(topic, *(RegionMapping(region=name, first=0) for name in names))

    def repeat(do: Callable[[int], object]) -> None:
        for n in range(ROUNDS):
            do(n)

    def hear(order: list[str], n: int) -> None:
        reports = [
            LeaderReport(topic=t, region=r, epoch=0, streams=(Stream(flushed=min(n, 1_200)),))
            for t in TOPICS
            for r in order
        ]
        topics.heartbeats.record_reports("shop", "node", reports)

    def remap(n: int) -> None:
        regions = tuple(RegionMapping(region=name) for name in names[::-1])
        topics.maps.put(MapOrder(instance="shop", topic=TOPICS[n % 2], generation=10 + n, regions=regions))

    work: dict[str, Callable[[int], object]] = {
        "heartbeats": lambda n: hear(names, n),
        "heartbeats, the other way": lambda n: hear(names[::-1], n),
        "purges": lambda n: Purger(log, topics.floors).purge([TOPICS[n % 2]]),
        "purges, the other way": lambda n: Purger(log, topics.floors).purge([TOPICS[(n + 1) % 2]]),
        "reviews": lambda _: Purger(log, topics.floors).preview(TOPICS, Step.PREPARE),
        "maps": remap,
        "resets": lambda n: ResetStore(topics.db).reset_topic(TOPICS[n % 2]),
    }
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(repeat, do) for do in work.values()]:
            done.result()

    assert {topics.store.topic(topic).quarantined for topic in TOPICS} == {""}
