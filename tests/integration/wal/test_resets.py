"""An operator resets topics and regions; epochs have a ceiling and a bounded step, and a reset repairs a high one."""

from typing import Any

import pytest
from sqlalchemy import update

from sexton.kernel.errors import BadInput
from sexton.wal.model import MAX_EPOCH, MAX_EPOCH_STEP, MOST, BlockReason
from sexton.wal.policy import RegionDrop, RegionMapping, RegionMove
from sexton.wal.port import EpochTooHigh, OldEpoch, ReplayRefused, UnknownRegion, UnknownTopic
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.topic_stores import TopicStores


def test_reset_region_opens_at_its_entry_and_is_no_loss(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.topic(100)
    topics.map(topic, RegionMapping(region="r1", first=0), "r2")
    topics.flushed(topic, "r2", 99)
    topics.purge(topic)
    topics.flushed(topic, "r1", 9)
    topics.flushed(topic, "r2", 99)
    topics.place.log.delete_before({topic: 40})
    lost = topics.purge(topic).verdict.losses
    with pytest.raises(ReplayRefused):
        topics.open(topic, "r1", 9)

    region = resets.reset_region(topic, "r1")

    assert [str(m) for m in lost] == ["10..39"]
    assert (region.keep_from, topics.store.lost([topic])) == (40, {})
    assert topics.open(topic, "r1", 9).start == 40
    assert topics.purge(topic).verdict.losses == ()


def test_region_is_reset_only_to_an_existing_entry(topics: TopicStores, resets: ResetStore) -> None:
    topic, unmapped = topics.mapped_topic(100), topics.mapped_topic(100)
    topics.place.log.delete_before({topic: 40})
    topics.purge(topic)
    resets.reset_topic(unmapped)

    for entry in (39, 101):
        with pytest.raises(BadInput, match="it has 40 to 100"):
            resets.reset_region(topic, "r1", entry)
    with pytest.raises(UnknownRegion):
        resets.reset_region(topic, "r9")
    with pytest.raises(UnknownTopic):
        resets.reset_region("wal-none", "r1")
    with pytest.raises(BadInput, match="let its owner send its map"):
        resets.reset_region(unmapped, "r1", 0)
    assert resets.reset_region(topic, "r1", 100).keep_from == 100


def test_w21_reset_topic_is_purged_after_a_map_and_reports(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(200, RegionMapping(region="r1", epoch=3, first=0))
    topics.flushed(topic, "r1", 149, epoch=3)
    topics.purge(topic)
    topics.place.recreate(topic)
    topics.place.append(topic, 180)  # of r1, in memory only: 0..179 of the new topic
    quarantined = topics.purge(topic).verdict.quarantine

    resets.reset_topic(topic)
    forgotten = topics.purge(topic)
    topics.map(topic, RegionMapping(region="r1", epoch=3, first=0))
    late = topics.flushed(topic, "r1", 149, epoch=3)  # sent before the reset: an entry of the old topic
    with pytest.raises(OldEpoch):
        topics.open(topic, "r1", None, epoch=3)
    for manifest in (None, 149):  # an entry of the old topic
        with pytest.raises(ReplayRefused, match="after a reset"):
            topics.open(topic, "r1", manifest, epoch=4)
    resets.reset_region(topic, "r1", 0)
    opened = topics.open(topic, "r1", 149, epoch=6)
    topics.replays.release(opened.id)
    topics.flushed(topic, "r1", 19, epoch=6)

    assert "another one" in quarantined
    assert [b.why for b in forgotten.verdict.blocked] == [BlockReason.MAP_STALE, BlockReason.SILENT]
    assert (late.taken, late.ignored, opened.start) == (0, 1, 0)
    assert topics.purge(topic).floor == 20
    assert topics.start(topic) == 19


def test_region_that_left_blocks_after_a_topic_reset(
    topics: TopicStores, resets: ResetStore, subtests: pytest.Subtests
) -> None:
    departures: list[Any] = [{"moved": ("r1",)}, {"dropped": (RegionDrop(region="r1", undrop_seconds=3_600),)}]
    for departed in departures:
        with subtests.test(departed=departed):
            topic = topics.mapped_topic(100, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
            topics.map(topic, RegionMapping(region="r2"), **departed)  # r1 has 0..99 in memory only
            with topics.db.write() as c:  # its end moved back, and an operator resets it
                t = topics.db.t.wal_topic
                c.execute(update(t).where(t.c.name == topic).values(quarantined="its end is 90"))
            resets.reset_topic(topic)
            topics.map(topic, RegionMapping(region="r2", epoch=5), **departed)
            topics.purge(topic)
            topics.flushed(topic, "r2", 99, epoch=5)

            done = topics.purge(topic)

            assert topics.start(topic) == 0, (done.floor, done.verdict)


def test_map_from_before_a_reset_is_no_report(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.topic(100)
    region = RegionMapping(region="r1", epoch=3, first=50)  # the end of the old topic
    topics.purge(topic)
    topics.map(topic, region)
    topics.purge(topic)
    topics.place.recreate(topic)
    topics.place.append(topic, 60)  # of r1, in memory only
    assert topics.purge(topic).verdict.quarantine
    resets.reset_topic(topic)
    topics.purge(topic)  # the topic is due at once

    topics.map(topic, region.model_copy(update={"epoch": 4}))
    done = topics.purge(topic)

    assert topics.start(topic) == 0, (done.floor, done.verdict)  # no region has reported since


def test_report_from_before_a_region_reset_does_not_count(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(150, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    topics.flushed(topic, "r1", 129)
    topics.flushed(topic, "r2", 99)
    topics.purge(topic)  # floor 100: r2 holds
    with pytest.raises(ReplayRefused, match=r"20\.\.99"):  # r1 was restored from last night
        topics.open(topic, "r1", 19, epoch=1)
    region = resets.reset_region(topic, "r1")  # the gap is accepted: it needs 100 and above
    topics.flushed(topic, "r1", 139)  # sent before the reset
    topics.flushed(topic, "r2", 149)
    done = topics.purge(topic)

    assert region.keep_from == 100
    assert topics.start(topic) <= 100, done.floor
    assert topics.open(topic, "r1", 19, epoch=1).start == 100


def test_reset_topic_without_regions_is_purged_to_its_end(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100)
    resets.reset_topic(topic)
    for _ in range(5):
        topics.map(topic, dropped=(RegionDrop(region="r1"),))
        topics.purge(topic)
        topics.wait(86_400)

    assert topics.purge(topic).floor == 100, topics.store.topic(topic).blocked


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


def test_reset_repairs_an_epoch_that_is_too_high(
    topics: TopicStores, resets: ResetStore, subtests: pytest.Subtests
) -> None:
    for epoch in [MAX_EPOCH, MOST, 2**63 - 1]:
        with subtests.test(epoch=epoch):
            of_region, of_topic = topics.mapped_topic(100), topics.mapped_topic(100)
            break_epoch(topics, of_region, epoch)
            break_epoch(topics, of_topic, epoch, generation=MOST)
            with pytest.raises((OldEpoch, EpochTooHigh), match="sexton wal reset"):
                topics.open(of_region, "r1", 9, epoch=5)

            resets.reset_region(of_region, "r1", 10)
            resets.reset_topic(of_topic)
            topics.map(of_topic, RegionMapping(region="r1", epoch=5))
            late = topics.flushed(of_region, "r1", 99, epoch=0), topics.flushed(of_topic, "r1", 99, epoch=4)
            pin = topics.open(of_region, "r1", 9, epoch=5)
            topics.replays.release(pin.id)

            assert ([receipt.ignored for receipt in late], pin.start) == ([1, 1], 10)
            assert topics.flushed(of_region, "r1", 49, epoch=5).taken == 1
            assert topics.flushed(of_topic, "r1", 49, epoch=5).waiting == 1
            assert [topics.purge(topic).floor for topic in (of_region, of_topic)] == [50, 50]


def test_operator_sets_the_epoch_of_a_region(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", epoch=MAX_EPOCH - 9, first=0))  # its owner's mistake

    region = resets.reset_region(topic, "r1", 10, epoch=6)

    assert region.epoch == 6
    assert topics.open(topic, "r1", 9, epoch=6).start == 10
