"""Reports count, wait or are ignored by epoch and the topic's end, as ``regions.merge`` says, not after a restore."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from sexton.database.engine import Database
from sexton.wal.model import BlockReason, KeepFromSource, Region
from sexton.wal.orders import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.purger import Purger
from sexton.wal.regions import merge, reported_need
from sexton.wal.sql.leaders import HeartbeatStore
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.fake_logs import InterruptedLog
from tests.integration.wal.topic_stores import TopicStores
from tests.servers.postgres import new_database


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
        Purger(InterruptedLog(topics.place, meanwhile), topics.floors).purge(topic)

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


IDS = st.integers(0, 12)
PROGRESS = st.lists(IDS, min_size=1, max_size=2).map(tuple)
REGIONS = st.builds(
    Region,
    topic=st.just("wal-0"),
    region=st.just("r1"),
    keep_from=IDS | st.none(),
    flushed=PROGRESS,
    source=st.sampled_from(KeepFromSource),
)
PENDING = st.none() | st.tuples(IDS, PROGRESS | st.none())
STREAMS = st.lists(st.builds(Stream, flushed=IDS | st.none(), idle=IDS | st.none()), min_size=1, max_size=2)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """One region of one topic."""
    url = new_database()
    db = Database.open(url)
    with db.write() as c:
        c.execute(insert(db.t.wal_topic).values(name="wal-0", instance="shop"))
        c.execute(insert(db.t.wal_region).values(**Region(topic="wal-0", region="r1").model_dump()))
    yield db
    db.close()


def stored(db: Database) -> Region:
    with db.read() as c:
        return Region(**c.execute(select(db.t.wal_region)).one()._mapping)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(region=REGIONS, pending=PENDING, streams=STREAMS, log_end=IDS | st.none())
def test_stored_heartbeat_agrees_with_the_rule(
    database: Database,
    region: Region,
    pending: tuple[int, tuple[int, ...] | None] | None,
    streams: list[Stream],
    log_end: int | None,
) -> None:
    if pending is not None:
        waits, flushed = pending
        region = region.model_copy(update={"pending_keep_from": waits, "pending_flushed": flushed})
    with database.write() as c:
        c.execute(update(database.t.wal_topic).values(log_end=log_end))
        c.execute(update(database.t.wal_region).values(**region.model_dump()))
    report = LeaderReport(topic="wal-0", region="r1", epoch=0, streams=tuple(streams))

    receipt = HeartbeatStore(database).record_reports("shop", "n1", [report])

    after, expected = stored(database), merge(region, reported_need(report), log_end)
    assert after.reported_at is not None
    assert after == expected.model_copy(update={"node": "n1", "reported_at": after.reported_at})
    assert (receipt.taken, receipt.waiting) == ((0, 1) if expected.pending_keep_from is not None else (1, 0))


def test_restored_row_of_a_region_is_no_report(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", epoch=1, first=0))
    topics.flushed(topic, "r1", 89, epoch=1)
    r = topics.db.t.wal_region
    with topics.db.read() as c:
        copy = dict(c.execute(select(r)).one()._mapping)  # the backup
    pin = topics.open(topic, "r1", 49, epoch=2)  # its manifest was restored: 50 and above are in its memory alone
    topics.replays.release(pin.id)
    with topics.db.write() as c:  # the database is restored from the backup
        c.execute(r.delete())
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

    assert waiting == 1
    assert (blocked.floor, [b.why for b in blocked.verdict.blocked]) == (None, [BlockReason.MAP_STALE])
    silent = topics.purge(topic).verdict.blocked
    topics.flushed(topic, "r1", 59, epoch=2)

    assert (zombie.taken, [b.why for b in silent]) == (0, [BlockReason.SILENT])
    assert topics.purge(topic).floor == 60
