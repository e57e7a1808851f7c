"""Reports count, wait or are ignored by epoch and the topic's end, as ``regions.merge`` says, not after a restore."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select

from sexton.wal.model import BlockReason, KeepFromSource, Region
from sexton.wal.policy import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.purger import Purger
from sexton.wal.regions import merge, reported_need
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.fake_logs import InterruptedLog
from tests.integration.wal.topic_stores import TopicStores


def test_impossible_report_spoils_no_other(topics: TopicStores, subtests: pytest.Subtests) -> None:
    impossible = [(Stream(flushed=number),) for number in (2**63 - 1, 2**63, 2**64 - 1, 2**70)]
    for streams in [*impossible, (Stream(flushed=2**62 - 1), Stream(flushed=2**62 - 1))]:
        with subtests.test(streams=streams):
            topic, other = topics.mapped_topic(100), topics.mapped_topic(100, RegionMapping(region="r2", first=0))
            reports = [
                LeaderReport(topic=topic, region="r1", epoch=0, streams=streams),
                LeaderReport(topic=other, region="r2", epoch=0, streams=(Stream(flushed=49),)),
            ]

            receipt = topics.heartbeats.record_reports("shop", "n", reports)

            assert (receipt.taken, receipt.ignored) == (1, 1)
            topics.purge(topic)
            assert topics.purge(other).floor == 50
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


def test_w13_report_of_another_epoch_or_follower_is_ignored(topics: TopicStores) -> None:
    topic = topics.mapped_topic(250, RegionMapping(region="r1", epoch=3))
    topics.flushed(topic, "r1", 0, epoch=3)
    assert topics.store.regions(topic)[0].source is KeepFromSource.FLUSHED  # not idle
    topics.flushed(topic, "r1", 50, epoch=3)

    for epoch in (1, 2, 4, 2**62, 2**64):
        assert topics.flushed(topic, "r1", 200, epoch=epoch).ignored == 1, epoch
    assert topics.flushed(topic, "r1", 200, epoch=3, leader=False).ignored == 1

    assert topics.purge(topic).floor == 51
    topics.map(topic, RegionMapping(region="r1", epoch=4))
    topics.place.append(topic, 50)
    topics.purge(topic)
    assert topics.flushed(topic, "r1", None, idle=299, epoch=3).ignored == 1
    assert topics.purge(topic).floor == 51
    assert topics.flushed(topic, "r1", 79, epoch=4).taken == 1
    assert topics.purge(topic).floor == 80


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


RULED = "ruled"
IDS = st.integers(0, 12)
PROGRESS = st.lists(IDS, min_size=1, max_size=2).map(tuple)
REGIONS = st.builds(
    Region,
    topic=st.just(RULED),
    region=st.just("r1"),
    keep_from=IDS | st.none(),
    flushed=PROGRESS,
    source=st.sampled_from(KeepFromSource),
)
PENDING = st.none() | st.tuples(IDS, PROGRESS | st.none())
STREAMS = st.lists(st.builds(Stream, flushed=IDS | st.none(), idle=IDS | st.none()), min_size=1, max_size=2)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(region=REGIONS, pending=PENDING, streams=STREAMS, log_end=IDS | st.none())
def test_stored_heartbeat_agrees_with_the_rule(
    topics: TopicStores,
    region: Region,
    pending: tuple[int, tuple[int, ...] | None] | None,
    streams: list[Stream],
    log_end: int | None,
) -> None:
    if pending is not None:
        waits, flushed = pending
        region = region.model_copy(update={"pending_keep_from": waits, "pending_flushed": flushed})
    t, r = topics.db.t.wal_topic, topics.db.t.wal_region
    with topics.db.write() as c:
        c.execute(delete(r).where(r.c.topic == RULED))
        c.execute(delete(t).where(t.c.name == RULED))
        c.execute(insert(t).values(name=RULED, instance="shop", log_end=log_end))
        c.execute(insert(r).values(**region.model_dump()))
    report = LeaderReport(topic=RULED, region="r1", epoch=0, streams=tuple(streams))

    receipt = topics.heartbeats.record_reports("shop", "n1", [report])

    (after,), expected = topics.store.regions(RULED), merge(region, reported_need(report), log_end)
    assert after.reported_at is not None
    assert after == expected.model_copy(update={"node": "n1", "reported_at": after.reported_at})
    assert (receipt.taken, receipt.waiting) == ((0, 1) if expected.pending_keep_from is not None else (1, 0))


def test_restored_row_of_a_region_is_no_report(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", epoch=1, first=0))
    topics.flushed(topic, "r1", 89, epoch=1)
    r = topics.db.t.wal_region
    with topics.db.read() as c:
        copy = dict(c.execute(select(r).where(r.c.topic == topic)).one()._mapping)  # the backup
    pin = topics.open(topic, "r1", 49, epoch=2)  # its manifest was restored: 50 and above are in its memory alone
    topics.replays.release(pin.id)
    with topics.db.write() as c:  # the database is restored from the backup
        c.execute(r.delete().where(r.c.topic == topic))
        c.execute(insert(r).values(**copy))
    resets.distrust_maps()
    topics.map(topic, RegionMapping(region="r1", epoch=2, first=0))

    done = topics.purge(topic)

    assert pin.start == 50
    assert topics.start(topic) <= 50, done.floor


def test_region_that_moved_since_the_backup_blocks(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    topics.flushed(topic, "r1", 99)
    topics.map(topic, RegionMapping(region="r2"), moved=("r1",))
    for _ in range(2):
        topics.purge(topic)
    assert [x.region for x in topics.store.regions(topic)] == ["r2"]
    # The backup is made now. Then r1 returns, appends 100..149, and moves away again: the backup does not show it.
    topics.place.append(topic, 50)
    resets.distrust_maps()
    topics.map(topic, RegionMapping(region="r2"), moved=("r1",))
    topics.purge(topic)
    topics.flushed(topic, "r2", 149)

    done = topics.purge(topic)

    assert topics.start(topic) <= 100, done.floor


def test_restored_map_does_not_count_until_sent_again(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.topic(100)
    order = MapOrder(instance="shop", topic=topic, generation=7, regions=(RegionMapping(region="r1", first=0),))
    topics.maps.put(order)
    topics.purge(topic)
    topics.flushed(topic, "r1", 49)

    waiting = resets.distrust_maps()
    blocked = topics.purge(topic)
    newer = order.model_copy(update={"regions": (RegionMapping(region="r1", epoch=2),)})
    topics.maps.put(newer)  # of the same generation, with other regions than in the backup
    zombie = topics.flushed(topic, "r1", 89, epoch=0)

    assert waiting == sum(each.enabled for each in topics.store.topics(instance="shop"))
    assert (blocked.floor, [b.why for b in blocked.verdict.blocked]) == (None, [BlockReason.MAP_STALE])
    silent = topics.purge(topic).verdict.blocked
    topics.flushed(topic, "r1", 59, epoch=2)

    assert (zombie.taken, [b.why for b in silent]) == (0, [BlockReason.SILENT])
    assert topics.purge(topic).floor == 60
