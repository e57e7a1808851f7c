"""A topic and an instance have bounded numbers of regions; no bound releases a region that may need entries."""

import pytest
from sqlalchemy import update

from sexton.wal.model import RegionState
from sexton.wal.policy import MapOrder, RegionDrop, RegionMapping
from sexton.wal.port import TooManyRegions
from sexton.wal.sql import maps
from sexton.wal.sql.maps import MapStore
from tests.integration.wal.topic_stores import WAL_SETTINGS, TopicStores

MOST, MANY = 3, 8_000
"""Comparing each region with each released one takes longer; a purge takes a second."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a topic have three regions."""
    monkeypatch.setattr(maps, "MAX_TOPIC_REGIONS", MOST)


def test_map_beyond_the_bound_of_a_topic_changes_nothing(topics: TopicStores, few: None) -> None:
    topic = topics.mapped_topic(10, *(RegionMapping(region=f"r{n}", first=n) for n in (1, 5, 6)))
    before = topics.store.topic(topic), topics.store.regions(topic)

    with pytest.raises(TooManyRegions, match=r"would have 4 regions .* may have 3: name those that left in dropped"):
        topics.map(topic, RegionMapping(region="r8", first=8))

    assert (topics.store.topic(topic), topics.store.regions(topic)) == before
    for region in ("r5", "r6"):
        topics.flushed(topic, region, 9)
    assert topics.purge(topic).floor == 1  # r1 still blocks


def test_regions_make_room_once_a_purge_released_them(topics: TopicStores, few: None) -> None:
    topic = topics.mapped_topic(10, *(RegionMapping(region=f"r{n}", first=0) for n in range(MOST)))
    dropped = (RegionDrop(region="r1"), RegionDrop(region="r2"))
    with pytest.raises(TooManyRegions):
        topics.map(topic, "r0", "r3", dropped=dropped)  # they may still need their entries
    topics.map(topic, "r0", dropped=dropped)
    topics.purge(topic)

    topics.map(topic, "r0", "r1", "r4")
    with pytest.raises(TooManyRegions):
        topics.map(topic, "r0", "r1", "r4", "r2")  # returns

    assert [region.region for region in topics.store.regions(topic)] == ["r1", "r4", "r0"]


def test_topic_above_the_bound_accepts_maps_without_new_ones(topics: TopicStores, few: None) -> None:
    topic = topics.topic(10)
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(maps, "MAX_TOPIC_REGIONS", 5)
        topics.map(topic, *(RegionMapping(region=f"r{n}", first=0) for n in range(5)))

    topics.map(topic, "r0", "r1", "r2", "r3", dropped=(RegionDrop(region="r4"),))
    topics.purge(topic)

    assert len(topics.store.regions(topic)) == 4
    with pytest.raises(TooManyRegions):
        topics.map(topic, "r5")


def test_instance_has_a_bounded_number_of_regions_and_topics(topics: TopicStores) -> None:
    store = MapStore(topics.db, WAL_SETTINGS.model_copy(update={"max_instance_regions": 3}))
    regions = (RegionMapping(region="r1"), RegionMapping(region="r2"))
    first, second, third = (
        MapOrder(instance="small", topic=name, generation=1, regions=regions) for name in ("a", "b", "c")
    )
    empty = [MapOrder(instance="empty", topic=name, generation=1) for name in ("e1", "e2", "e3", "e4")]
    store.put(first)
    for order in empty[:3]:
        store.put(order)

    with pytest.raises(TooManyRegions, match=r"instance small would have 4 regions .*wal\.max_instance_regions"):
        store.put(second)
    with pytest.raises(TooManyRegions, match=r"instance empty has 3 topics, empty ones included"):
        store.put(empty[3])

    assert topics.store.regions("b") == []
    assert [topic.name for topic in topics.store.topics(instance="empty")] == ["e1", "e2", "e3"]
    store.put(second.model_copy(update={"regions": regions[:1]}))
    for order in (third, empty[3]):
        store.put(order.model_copy(update={"instance": "other"}))
    for order in (first, empty[0]):
        store.put(order.model_copy(update={"generation": 2}))


def test_pages_and_maps_read_only_regions_that_matter(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10, *(RegionMapping(region=f"r{n}", first=0) for n in range(3)))
    topics.map(topic, "r0", "r1", dropped=(RegionDrop(region="r2"),))
    topics.purge(topic)
    spoil(topics, topic, "r2")

    topics.flushed(topic, "r0", 5)
    topics.flushed(topic, "r1", 5)
    assert (topics.purge(topic).floor, len(topics.store.regions(topic))) == (6, 2)
    assert len(topics.floors.regions_to_flush([topic])) == 0
    spoil(topics, topic, "r1")
    topics.map(topic, "r0", "r3")


def spoil(topics: TopicStores, topic: str, region: str) -> None:
    """Make the row of a region unreadable."""
    r = topics.db.t.wal_region
    with topics.db.write() as c:
        c.execute(update(r).where(r.c.topic == topic, r.c.region == region).values(flushed={"no": "list"}))


def test_pending_report_counts_when_a_region_returns(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10, "r1", "r2")
    topics.flushed(topic, "r1", 14)  # above the known end
    topics.flushed(topic, "r2", 4)
    topics.map(topic, "r2", dropped=(RegionDrop(region="r1"),))
    topics.purge(topic)
    topics.place.append(topic, 10)
    topics.purge(topic)

    topics.map(topic, "r2", RegionMapping(region="r1", first=20))

    flushed = {region.region: (region.state, region.flushed) for region in topics.store.regions(topic)}
    assert flushed["r1"] == (RegionState.MAPPED, (15,))


def test_release_of_many_regions_does_not_hang(topics: TopicStores) -> None:
    names = [f"r{n}" for n in range(MANY)]
    topic = topics.topic(10)
    topics.map(topic, *names)
    topics.map(topic, *names[::2], dropped=tuple(RegionDrop(region=name) for name in names[1::2]))

    topics.purge(topic)

    assert len(topics.store.regions(topic)) == MANY // 2
