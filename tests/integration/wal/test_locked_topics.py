"""A topic that is locked, or whose decision takes long, delays no renewal and no purge of others (PostgreSQL)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from sexton.wal.model import Mode
from sexton.wal.orders import MapOrder, OpenRegionOrder, RegionMapping
from sexton.wal.sql import floors
from tests.integration.wal.topic_stores import TopicStores
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter

ENTRIES = 30


def make(topics: TopicStores, topic: str, instance: str, regions: int = 1) -> None:
    """Make a topic whose regions need entry 20 and later ones."""
    topics.place.log.create(topic)  # type: ignore[attr-defined]
    topics.place.append(topic, ENTRIES)
    topics.store.enable(topic, Mode.DELETE, instance)
    mappings = tuple(RegionMapping(region=f"r{n}", first=20, node="n1") for n in range(regions))
    topics.maps.put(MapOrder(instance=instance, topic=topic, generation=1, regions=mappings))


@contextmanager
def locked(topics: TopicStores, topic: str) -> Iterator[None]:
    """Lock a topic, as a long decision about it would."""
    t = topics.db.t.wal_topic
    with topics.db.write() as c:
        c.execute(select(t.c.name).where(t.c.name == topic).with_for_update())
        yield


@pytest.mark.parametrize(("instance", "regions"), [("other", 1), ("shop", 4)])
def test_renewal_waits_for_no_other_topic(
    topics: TopicStores, monkeypatch: pytest.MonkeyPatch, instance: str, regions: int
) -> None:
    monkeypatch.setattr(floors, "MAX_PART_REGIONS", 3)
    make(topics, "aaa", "shop")
    make(topics, "zzz", instance, regions)
    pin = topics.replays.open(OpenRegionOrder(topic="aaa", region="r0", epoch=1, flushed=(None,), node="n1"))

    with ThreadPoolExecutor(1) as pool:
        with locked(topics, "zzz"):
            purging = pool.submit(topics.purger.purge, ["aaa", "zzz"])
            wait_for_lock_waiter(topics.db)
            topics.replays.renew(pin.id)
            assert not purging.done()
        results = purging.result(PATIENCE_SECONDS)

    assert {name: result.floor for name, result in results.items()} == {"aaa": 20, "zzz": 20}


@pytest.mark.slow
def test_locked_topic_delays_no_purge_of_others(topics: TopicStores, caplog: pytest.LogCaptureFixture) -> None:
    for topic, instance in (("aaa", "other"), ("zzz", "shop")):
        make(topics, topic, instance)

    with locked(topics, "aaa"):
        results = topics.purger.purge(["aaa", "zzz"])
        topics.floors.record_entry_sizes(["aaa", "zzz"], {"aaa": 5.0, "zzz": 5.0})
        with pytest.raises(OperationalError):
            topics.purger.purge(["aaa"])

    assert (list(results), results["zzz"].floor) == (["zzz"], 20)
    assert "aaa to aaa are locked" in caplog.text
    assert [topics.store.topic(name).entry_bytes for name in ("aaa", "zzz")] == [0.0, 5.0]
    assert topics.store.topic("aaa").checked_at is None
    assert topics.purge("aaa").floor == 20
