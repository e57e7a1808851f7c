"""A map of an owner is accepted only if it is newer and free of contradictions."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.wal.model import MAX_EPOCH, MAX_GENERATION_STEP, MOST
from sexton.wal.orders import MapOrder, RegionDrop, RegionMapping
from sexton.wal.port import EpochTooHigh, OldEpoch, OldMap, UnknownTopic
from sexton.wal.sql.resets import ResetStore
from tests.integration.wal.topic_stores import TopicStores


def test_generation_has_one_map(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10)
    topics._generation -= 1
    with pytest.raises(OldMap, match="another map of generation"):
        topics.map(topic, dropped=(RegionDrop(region="r1"),))

    topics._generation -= 1
    topics.map(topic, RegionMapping(region="r1", first=0))


def test_map_ends_the_epochs_below_its_own(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10)
    topics.map(topic, RegionMapping(region="r1", epoch=5))

    with pytest.raises(OldEpoch):
        topics.open(topic, "r1", None, epoch=4)


def test_repeated_map_with_less_undrop_time_is_the_same(topics: TopicStores) -> None:
    topic = topics.topic(10)
    order = MapOrder(
        instance="shop",
        topic=topic,
        generation=7,
        regions=(RegionMapping(region="r1"), RegionMapping(region="r2")),
        dropped=(RegionDrop(region="r3", undrop_seconds=7_200),),
    )
    topics.maps.put(order)
    topics.wait(3_600)
    again = {"regions": order.regions[::-1], "dropped": (RegionDrop(region="r3", undrop_seconds=3_600),)}

    assert topics.maps.put(order.model_copy(update=again)).generation == 7


def test_old_or_contradictory_map_is_refused(topics: TopicStores, topic: str) -> None:

    topics.purge(topic)
    with pytest.raises(BadInput, match="cannot begin at 49"):
        topics.map(topic, "r1", "r2", RegionMapping(region="r3", first=49))
    with pytest.raises(BadInput, match="region r1 appears more than once"):
        topics.map(topic, "r1", moved=("r1",))
    topics.map(topic, "r1", "r2")
    topics._generation = 0
    with pytest.raises(OldMap):
        topics.map(topic, "r1")
    assert [r.region for r in topics.store.regions(topic)] == ["r1", "r2"]


def test_map_raises_the_generation_by_a_bounded_step(topics: TopicStores, subtests: pytest.Subtests) -> None:
    for generation in [MAX_GENERATION_STEP + 2, MAX_EPOCH, MAX_EPOCH + 1, MOST]:
        with subtests.test(generation=generation):
            topic = topics.mapped_topic(10)
            before = topics.store.topic(topic), topics.store.regions(topic)
            order = MapOrder(instance="shop", topic=topic, generation=generation, regions=(RegionMapping(region="r2"),))

            known = before[0].generation
            with pytest.raises(EpochTooHigh, match=rf"generation {known}, .*send generation {known + 1}"):
                topics.maps.put(order)

            assert (topics.store.topic(topic), topics.store.regions(topic)) == before
            highest = order.model_copy(update={"generation": MAX_GENERATION_STEP + 1})
            assert topics.maps.put(highest).generation == MAX_GENERATION_STEP + 1
            with pytest.raises(OldMap, match=f"generation 2 is older than {MAX_GENERATION_STEP + 1}, which is known"):
                topics.maps.put(order.model_copy(update={"generation": 2}))


def test_first_map_above_the_ceiling_takes_no_name(topics: TopicStores) -> None:
    order = MapOrder(instance="shop", topic="orders", generation=MAX_EPOCH + 1)

    with pytest.raises(EpochTooHigh, match=str(MAX_EPOCH)):
        topics.maps.put(order)

    with pytest.raises(UnknownTopic):
        topics.store.topic("orders")
    assert topics.maps.put(order.model_copy(update={"generation": MAX_EPOCH})).generation == MAX_EPOCH


def test_reset_accepts_the_maps_that_follow(topics: TopicStores, resets: ResetStore, subtests: pytest.Subtests) -> None:
    for generation in [MAX_EPOCH - 1, MAX_EPOCH]:
        with subtests.test(generation=generation):
            order = MapOrder(instance="shop", topic=topics.topic(10), generation=generation)
            topics.maps.put(order)
            with pytest.raises(OldMap, match=f"sexton wal reset {order.topic}"):
                topics.maps.put(order.model_copy(update={"generation": 7}))

            resets.reset_topic(order.topic)

            instant = 1_800_000_000_000
            for later in (instant, instant + 1):
                assert topics.maps.put(order.model_copy(update={"generation": later})).generation == later
