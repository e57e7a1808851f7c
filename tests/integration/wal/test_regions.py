"""Entries are retained for regions of every fate; a map is accepted only if it is newer and free of contradictions."""

from typing import Any

import pytest

from sexton.kernel.errors import BadInput
from sexton.wal.model import MAX_EPOCH, MAX_GENERATION_STEP, MOST, BlockReason, RegionState
from sexton.wal.policy import MapOrder, RegionDrop, RegionMapping
from sexton.wal.port import EpochTooHigh, OldMap, Step, UnknownTopic
from sexton.wal.purger import Purger
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.fake_logs import InterruptedLog
from tests.integration.wal.topic_stores import TopicStores


def test_w23_dropped_region_blocks_until_its_drop_is_final(topics: TopicStores) -> None:
    dropped, undropped = topics.flushed_topic(250, r1=49, r2=99), topics.flushed_topic(250, r1=49, r2=99)
    for topic in (dropped, undropped):
        topics.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
        assert topics.purge(topic).floor == 50
    topics.map(undropped, "r1", "r2")

    topics.wait(3_601)

    assert (topics.purge(dropped).floor, topics.purge(undropped).floor) == (100, 50)
    assert [r.region for r in topics.store.regions(dropped)] == ["r2"]


def test_w24_first_entry_after_a_purge_to_the_end_is_read(topics: TopicStores) -> None:
    topic = topics.mapped_topic(101, "r1")
    topics.flushed(topic, "r1", None, idle=100)
    assert topics.purge(topic).floor == 101

    assert topics.place.append(topic, 1) == 101

    pin = topics.open(topic, "r1", None)
    assert pin.start == 101
    assert topics.place.read(topic, pin.start) == [101]


def test_w26_region_mapped_before_its_first_append_retains_it(topics: TopicStores) -> None:
    topic = topics.mapped_topic(50, "r0")
    topics.flushed(topic, "r0", None, idle=49)
    topics.map(topic, "r0", RegionMapping(region="r1", first=50))
    first = topics.place.append(topic, 20)
    topics.flushed(topic, "r0", None, idle=69)

    assert topics.purge(topic).floor == 50

    assert topics.open(topic, "r1", None).start == first == 50


def test_w26_first_entry_above_the_known_end_does_not_count(topics: TopicStores) -> None:
    topic = topics.topic(50)
    topics.map(topic, RegionMapping(region="r1", first=2**62))

    assert [b.why for b in topics.purge(topic).verdict.blocked] == [BlockReason.SILENT]
    assert topics.open(topic, "r1", None).start == 0
    assert topics.purge(topic).verdict.keep_from == 0


def test_w26_region_of_an_unseen_topic_begins_at_its_map(topics: TopicStores) -> None:
    topic = topics.topic(50)
    topics.place.log.delete_before({topic: 40})
    topics.map(topic, RegionMapping(region="r1", first=50))

    pin = topics.open(topic, "r1", None)
    topics.replays.release(pin.id)

    assert pin.start == 50
    assert (topics.purge(topic).verdict.losses, topics.purge(topic).floor) == ((), 50)


def test_w28_moved_region_blocks_until_its_entries_are_flushed(topics: TopicStores) -> None:
    topic = topics.flushed_topic(100, r1=39, r2=89)
    topics.map(topic, "r2", moved=("r1",))
    topics.place.append(topic, 10)

    assert topics.purge(topic).floor == 40
    topics.flushed(topic, "r1", 60)
    topics.flushed(topic, "r2", 105)
    assert topics.purge(topic).floor == 61
    topics.flushed(topic, "r1", 60, idle=109)
    assert topics.purge(topic).floor == 106
    assert [r.region for r in topics.store.regions(topic)] == ["r2"]


def test_w28_end_for_a_moved_region_is_read_after_its_move(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10, "r1", "r2")
    topics.flushed(topic, "r1", None, idle=9)
    topics.flushed(topic, "r2", None, idle=9)
    before = topics.floors.state_before_read([topic])
    answers = topics.place.log.facts([topic])
    topics.place.append(topic, 1)  # r1 appends, and then it moves
    topics.map(topic, "r2", moved=("r1",))

    topics.floors.judge(answers, before, Step.RAISE)
    topics.flushed(topic, "r2", None, idle=10)

    assert topics.purge(topic).floor == 10
    assert [r.region for r in topics.store.regions(topic)] == ["r1", "r2"]


def test_w28_region_missing_from_the_map_still_blocks(topics: TopicStores) -> None:
    topic = topics.flushed_topic(100, r1=39, r2=89)
    topics.map(topic, "r2")

    assert topics.purge(topic).floor == 40
    assert {r.region: r.state for r in topics.store.regions(topic)} == {
        "r1": RegionState.MAPPED,
        "r2": RegionState.MAPPED,
    }


def test_region_that_returned_and_left_has_newer_entries(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, "r1", "r2")
    topics.flushed(topic, "r1", None, idle=99)
    topics.flushed(topic, "r2", None, idle=99)
    topics.map(topic, "r2", moved=("r1",))

    def meanwhile() -> None:
        topics.map(topic, "r1", "r2")
        topics.place.append(topic, 10)  # of r1, in memory only
        topics.map(topic, "r2", moved=("r1",))

    Purger(InterruptedLog(topics.place, meanwhile), topics.floors).purge([topic])
    topics.flushed(topic, "r2", None, idle=109)
    for _ in range(2):
        topics.purge(topic)

    assert "r1" in [r.region for r in topics.store.regions(topic)]
    assert topics.start(topic) <= 100


def test_region_that_left_before_its_first_map_blocks(topics: TopicStores, subtests: pytest.Subtests) -> None:
    departures: list[Any] = [{"moved": ("r1",)}, {"dropped": (RegionDrop(region="r1", undrop_seconds=3_600),)}]
    for departure in departures:
        with subtests.test(departure=departure):
            topic = topics.topic(100)
            topics.map(topic, "r2", **departure)
            topics.purge(topic)
            topics.flushed(topic, "r2", 89)

            done = topics.purge(topic)

            assert "r1" in done.verdict.blocked[0].said
            assert topics.start(topic) == 0


def test_released_region_named_as_moved_again_does_not_block(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, "r1", "r2")
    topics.flushed(topic, "r1", None, idle=99)
    topics.flushed(topic, "r2", 59)
    for _ in range(3):
        topics.map(topic, "r2", moved=("r1",))
        topics.purge(topic)

    assert topics.purge(topic).floor == 60
    assert [r.region for r in topics.store.regions(topic)] == ["r2"]


def test_second_drop_has_its_own_undrop_window(topics: TopicStores) -> None:
    topic = topics.flushed_topic(100, r1=9, r2=89)
    for seconds in (3_000, 700):
        topics.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
        topics.wait(seconds)

    assert topics.purge(topic).floor == 10


def test_old_or_contradictory_map_is_refused(topics: TopicStores, topic: str) -> None:
    topics.purge(topic)
    with pytest.raises(BadInput, match="cannot begin at 49"):
        topics.map(topic, "r1", "r2", RegionMapping(region="r3", first=49))
    with pytest.raises(BadInput, match="region r1 appears more than once"):
        topics.map(topic, "r1", moved=("r1",))
    order = MapOrder(
        instance="shop",
        topic=topic,
        generation=7,
        regions=(RegionMapping(region="r1"), RegionMapping(region="r2")),
        dropped=(RegionDrop(region="r3", undrop_seconds=7_200),),
    )
    topics.maps.put(order)
    topics.wait(3_600)
    repeated = {"regions": order.regions[::-1], "dropped": (RegionDrop(region="r3", undrop_seconds=3_600),)}

    assert topics.maps.put(order.model_copy(update=repeated)).generation == 7
    with pytest.raises(OldMap, match="another map of generation"):
        topics.maps.put(order.model_copy(update={"dropped": (RegionDrop(region="r4"),)}))
    with pytest.raises(OldMap):
        topics.maps.put(order.model_copy(update={"generation": 6}))
    assert {r.region for r in topics.store.regions(topic)} == {"r1", "r2", "r3"}


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
