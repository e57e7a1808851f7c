"""Reports of nodes count, wait or are ignored by their epoch and the topic's end."""

import pytest

from sexton.wal.model import BlockReason, KeepFromSource
from sexton.wal.orders import LeaderReport, RegionMapping, Stream
from sexton.wal.purger import Purger
from tests.integration.wal.fake_logs import InterruptedLog
from tests.integration.wal.topic_stores import TopicStores


def test_newer_map_ends_reports_of_the_old_leader(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", epoch=3, first=100))
    topics.map(topic, RegionMapping(region="r1", epoch=4, first=100))
    topics.place.append(topic, 50)
    topics.purge(topic)

    receipt = topics.flushed(topic, "r1", None, idle=149, epoch=3)

    assert receipt.ignored == 1
    topics.purge(topic)
    assert topics.start(topic) <= 100


def test_report_cannot_raise_its_epoch(topics: TopicStores, subtests: pytest.Subtests) -> None:
    for epoch in [1, 2**62, 2**64]:
        with subtests.test(epoch=epoch):
            topic = topics.mapped_topic(100)
            topics.flushed(topic, "r1", 80, epoch=epoch)

            receipt = topics.flushed(topic, "r1", 89)

            assert receipt.taken == 1
            assert topics.purge(topic).floor == 90


def test_impossible_number_spoils_no_other_report(topics: TopicStores, subtests: pytest.Subtests) -> None:
    for number in [2**63 - 1, 2**63, 2**64 - 1, 2**70]:
        with subtests.test(number=number):
            topic, other = topics.mapped_topic(100), topics.mapped_topic(100, RegionMapping(region="r2", first=0))
            reports = [
                LeaderReport(topic=topic, region="r1", epoch=0, streams=(Stream(flushed=number),)),
                LeaderReport(topic=other, region="r2", epoch=0, streams=(Stream(flushed=49),)),
            ]

            receipt = topics.heartbeats.record_reports("shop", "n", reports)

            assert (receipt.taken, receipt.ignored) == (1, 1)
            assert topics.purger.purge([topic, other])[other].floor == 50
            assert topics.open(topic, "r1", None).start == 0


def test_pending_report_counts_though_newer_ones_follow(topics: TopicStores) -> None:
    topic = topics.mapped_topic(1)

    def meanwhile() -> None:
        end = topics.place.append(topic, 1)
        topics.flushed(topic, "r1", None, idle=end)

    for _ in range(5):
        topics.place.append(topic, 10)
        Purger(InterruptedLog(topics.place, meanwhile), topics.floors).purge([topic])

    assert (topics.store.topic(topic).floor or 0) > 10


def test_first_entry_is_flushed_not_idle(topics: TopicStores) -> None:
    topic = topics.mapped_topic(10, "r1")

    topics.flushed(topic, "r1", 0)

    assert topics.store.regions(topic)[0].source is KeepFromSource.FLUSHED


def test_unstorable_sum_spoils_no_other_report(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    unstorable = LeaderReport(
        topic=topic, region="r1", epoch=0, streams=(Stream(flushed=2**62 - 1), Stream(flushed=2**62 - 1))
    )
    storable = LeaderReport(topic=topic, region="r2", epoch=0, streams=(Stream(flushed=9),))

    receipt = topics.heartbeats.record_reports("shop", "n", [unstorable, storable])

    assert (receipt.taken, receipt.ignored) == (1, 1)


def test_w13_report_of_an_older_epoch_or_follower_is_ignored(topics: TopicStores) -> None:
    topic = topics.mapped_topic(250, RegionMapping(region="r1", epoch=3))
    topics.flushed(topic, "r1", 50, epoch=3)

    receipts = [topics.flushed(topic, "r1", 200, epoch=2), topics.flushed(topic, "r1", 200, epoch=3, leader=False)]
    receipts.append(topics.flushed(topic, "r1", 200, epoch=2**62))

    assert [(h.taken, h.ignored) for h in receipts] == [(0, 1)] * 3
    assert topics.purge(topic).floor == 51


def test_report_above_the_end_waits_for_the_end(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, "r1", "r2")
    topics.place.append(topic, 50)

    receipt = [topics.flushed(topic, "r1", 120), topics.flushed(topic, "r2", 2**57)]

    assert [(h.taken, h.waiting) for h in receipt] == [(0, 1), (0, 1)]
    assert [b.why for b in topics.purge(topic).verdict.blocked] == [BlockReason.SILENT]
    needs = {r.region: r.keep_from for r in topics.store.regions(topic)}
    assert needs == {"r1": 121, "r2": None}
    topics.flushed(topic, "r2", 30)
    assert topics.purge(topic).floor == 31
