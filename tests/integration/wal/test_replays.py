"""A region opens at its first needed entry, which stays while the region is read."""

import pytest

from sexton.wal.model import MAX_REPLAYS, KeepFromSource
from sexton.wal.policy import OpenRegionOrder, RegionMapping, Stream
from sexton.wal.port import PinEnded, ReplayRefused, TooManyReplays, UnknownRegion, UnknownTopic
from tests.integration.wal.topic_stores import TopicStores
from tests.support.transactions import recorded_transactions


def test_w10_w18_entries_deleted_by_kafka_are_a_loss(topics: TopicStores, topic: str) -> None:
    topics.place.log.delete_before({topic: 80})

    done = topics.purge(topic)

    assert [(m.region, str(m)) for m in done.verdict.losses] == [("r1", "50..79")]
    assert done.floor == 50
    with pytest.raises(ReplayRefused, match=r"50\.\.79"):
        topics.open(topic, "r1", 49)
    assert topics.open(topic, "r2", 149).start == 150


def test_w15_pinned_entries_stay_until_the_pin_is_released(topics: TopicStores, topic: str) -> None:
    pin = topics.open(topic, "r1", 49)
    topics.flushed(topic, "r1", 120, epoch=1)

    blocked = topics.purge(topic)

    assert (blocked.floor, blocked.verdict.holders) == (50, (f"replay {pin.id} of region r1",))
    assert topics.place.read(topic, pin.start)[0] == 50
    topics.replays.release(pin.id)
    topics.replays.release(pin.id)
    assert topics.purge(topic).floor == 121


def test_node_has_a_largest_number_of_replays_of_a_region(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    pins = [topics.open(topic, "r1", None, epoch=1) for _ in range(MAX_REPLAYS)]
    topics.wait(100)
    before = topics.store.regions(topic)

    with pytest.raises(TooManyReplays, match=r"region r1 .*100 replays .*DELETE .*at most \d+ s"):
        topics.open(topic, "r1", None, epoch=2)

    assert topics.store.regions(topic) == before
    assert topics.open(topic, "r2", None).start == 0
    topics.replays.release(pins[0].id)
    assert topics.open(topic, "r1", None, epoch=1).start == 0
    topics.map(topic, RegionMapping(region="r1", node="node-2"), RegionMapping(region="r2"))
    other = OpenRegionOrder(topic=topic, region="r1", epoch=2, node="node-2")
    assert topics.replays.open(other).start == 0  # the node that led it before does not keep the next one out
    topics.map(topic, RegionMapping(region="r1", node="node-1"), RegionMapping(region="r2"))
    topics.wait(201)
    assert topics.open(topic, "r1", None, epoch=3).start == 0


def test_w16_dead_reader_blocks_until_its_pin_expires(topics: TopicStores, topic: str) -> None:
    pin = topics.open(topic, "r1", 49)
    topics.flushed(topic, "r1", 120, epoch=1)
    topics.wait(299)
    assert topics.replays.renew(pin.id).expires_at > pin.expires_at

    topics.wait(299)
    assert topics.purge(topic).floor == 50
    topics.wait(2)

    assert topics.purge(topic).floor == 121
    with pytest.raises(PinEnded):
        topics.replays.renew(pin.id)


def test_open_and_renew_lock_the_topic_before_they_check(topics: TopicStores, topic: str) -> None:
    with recorded_transactions(topics.db) as transactions:
        pin = topics.open(topic, "r1", 49)
        topics.replays.renew(pin.id)

    writing = [t for t in transactions if any("UPDATE" in statement for statement in t)]
    assert len(writing) == 2
    assert all(t[0].startswith("UPDATE") and "wal_topic" in t[0] and "seq" in t[0] for t in writing)


def test_pin_is_not_renewed_beyond_its_maximum_age(topics: TopicStores, topic: str) -> None:
    pin = topics.open(topic, "r1", 49)
    for _ in range(4):
        topics.wait(249)
        pin = topics.replays.renew(pin.id)

    topics.wait(5)
    with pytest.raises(PinEnded):
        topics.replays.renew(pin.id)


def test_restored_manifest_lowers_the_need_of_its_region(topics: TopicStores, topic: str) -> None:
    topics.purge(topic)
    topics.flushed(topic, "r1", 120)

    pin = topics.open(topic, "r1", 69, epoch=1)
    late = topics.flushed(topic, "r1", 120, epoch=0)
    topics.replays.release(pin.id)

    assert (pin.start, late.ignored) == (70, 1)
    needs = {r.region: (r.keep_from, r.source) for r in topics.store.regions(topic)}
    assert needs["r1"] == (70, KeepFromSource.OPENED)
    assert topics.purge(topic).floor == 70


def test_unmapped_region_does_not_open(topics: TopicStores, topic: str) -> None:
    with pytest.raises(UnknownTopic):
        topics.open("wal-none", "r1", 49)
    with pytest.raises(UnknownRegion, match="r9"):
        topics.open(topic, "r9", 49)


def test_manifest_from_before_a_return_hides_no_entry(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", first=0), "r2")
    topics.flushed(topic, "r2", 29)
    topics.report(topic, "r1", Stream(flushed=99, idle=99))
    topics.map(topic, "r2", moved=("r1",))
    for _ in range(2):
        topics.purge(topic)
    assert [r.region for r in topics.store.regions(topic)] == ["r2"]
    topics.place.append(topic, 50)
    topics.map(topic, RegionMapping(region="r1", epoch=1, first=150), "r2")

    assert topics.open(topic, "r1", 49, epoch=2).start == 50


def test_w17_new_epoch_counts_its_own_manifest_per_stream(topics: TopicStores) -> None:
    topic = topics.mapped_topic(200)
    topics.report(topic, "r1", Stream(flushed=100), Stream(flushed=50))
    # The first stream was restored from a backup.
    order = OpenRegionOrder(topic=topic, region="r1", epoch=1, flushed=(60, 120), node="node-1")
    pin = topics.replays.open(order)
    topics.replays.release(pin.id)
    topics.report(topic, "r1", Stream(flushed=80, idle=180), Stream(flushed=150, idle=180), epoch=1)
    topics.purge(topic)  # floor 181, by the idle marks

    reopened = topics.replays.open(order.model_copy(update={"epoch": 2, "flushed": (80, 150)}))

    assert (pin.start, reopened.start) == (61, 181)
