"""Reports and maps from before a restore of Sexton's database do not count."""

from sqlalchemy import insert, select

from sexton.wal.model import BlockReason
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.sql.resets import ResetStore
from tests.integration.wal.topic_stores import TopicStores


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
