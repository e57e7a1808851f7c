"""Epochs have a ceiling and a bounded step, and a reset repairs a region whose epoch is too high already."""

import pytest
from sqlalchemy import update

from sexton.wal.model import MAX_EPOCH, MAX_EPOCH_STEP, MOST
from sexton.wal.orders import RegionMapping, RegionMove
from sexton.wal.port import EpochTooHigh, OldEpoch
from sexton.wal.sql.resets import ResetStore
from tests.integration.wal.topic_stores import TopicStores


def break_epoch(topics: TopicStores, topic: str, epoch: int, generation: int | None = None) -> None:
    """Store an epoch, and a generation, that an earlier version accepted."""
    r, t = topics.db.t.wal_region, topics.db.t.wal_topic
    with topics.db.write() as c:
        c.execute(update(r).where(r.c.topic == topic).values(epoch=epoch))
        if generation is not None:
            c.execute(update(t).where(t.c.name == topic).values(generation=generation))


def test_opening_raises_an_epoch_by_a_bounded_step(topics: TopicStores, subtests: pytest.Subtests) -> None:
    for epoch in [MAX_EPOCH_STEP + 4, MAX_EPOCH, MAX_EPOCH + 1, MOST]:
        with subtests.test(epoch=epoch):
            topic = topics.mapped_topic(100, RegionMapping(region="r1", epoch=3, first=0))
            before = topics.store.regions(topic)

            with pytest.raises(EpochTooHigh, match="region r1 of topic"):
                topics.open(topic, "r1", 99, epoch=epoch)

            assert topics.store.regions(topic) == before
            assert topics.open(topic, "r1", 99, epoch=MAX_EPOCH_STEP + 3).start == 100


def test_no_map_or_opening_names_an_epoch_above_the_ceiling(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100)
    region = RegionMapping(region="r1", epoch=MAX_EPOCH + 1, first=0)

    with pytest.raises(EpochTooHigh):
        topics.map(topic, region)
    with pytest.raises(EpochTooHigh):
        topics.map(topic, moved=(RegionMove(region="r1", epoch=MAX_EPOCH + 1),))

    topics.map(topic, region.model_copy(update={"epoch": MAX_EPOCH}))
    with pytest.raises(EpochTooHigh, match="sexton wal reset"):
        topics.open(topic, "r1", 99, epoch=MAX_EPOCH + 1)
    assert topics.open(topic, "r1", 99, epoch=MAX_EPOCH).start == 100


def test_reset_repairs_a_region_at_the_last_epoch(
    topics: TopicStores, resets: ResetStore, subtests: pytest.Subtests
) -> None:
    for epoch in [MAX_EPOCH, MOST, 2**63 - 1]:
        with subtests.test(epoch=epoch):
            topic = topics.mapped_topic(100)
            break_epoch(topics, topic, epoch)
            with pytest.raises((OldEpoch, EpochTooHigh), match="sexton wal reset"):
                topics.open(topic, "r1", 9, epoch=5)

            resets.reset_region(topic, "r1", 10)
            late = topics.flushed(topic, "r1", 99, epoch=0)
            pin = topics.open(topic, "r1", 9, epoch=5)
            topics.replays.release(pin.id)

            assert (late.ignored, pin.start) == (1, 10)
            assert topics.flushed(topic, "r1", 49, epoch=5).taken == 1
            assert topics.purge(topic).floor == 50


def test_reset_of_a_topic_repairs_its_regions_and_map(
    topics: TopicStores, resets: ResetStore, subtests: pytest.Subtests
) -> None:
    for epoch in [MAX_EPOCH, MOST, 2**63 - 1]:
        with subtests.test(epoch=epoch):
            topic = topics.mapped_topic(100)
            break_epoch(topics, topic, epoch, generation=MOST)

            resets.reset_topic(topic)
            topics.map(topic, RegionMapping(region="r1", epoch=5))
            late = topics.flushed(topic, "r1", 99, epoch=4)

            assert late.ignored == 1
            assert topics.flushed(topic, "r1", 49, epoch=5).waiting == 1
            assert topics.purge(topic).floor == 50


def test_operator_sets_the_epoch_of_a_region(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", epoch=MAX_EPOCH - 9, first=0))  # its owner's mistake

    region = resets.reset_region(topic, "r1", 10, epoch=6)

    assert region.epoch == 6
    assert topics.open(topic, "r1", 9, epoch=6).start == 10
