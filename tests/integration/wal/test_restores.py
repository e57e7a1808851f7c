"""What counts after Sexton's database was restored from a backup."""

from sqlalchemy import insert, select

from sexton.wal.model import BlockReason
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.sql.resets import ResetStore
from tests.integration.wal.field import Field


def test_restored_row_of_a_region_is_no_report(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", epoch=1, first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 89, epoch=1)
    r = field.db.t.wal_region
    with field.db.read() as c:
        copy = dict(c.execute(select(r)).one()._mapping)  # the backup
    pin = field.open(topic, "r1", 49, epoch=2)  # its manifest was restored: 50 and above are in its memory alone
    field.replays.release(pin.id)
    with field.db.write() as c:  # the database is restored from the backup
        c.execute(r.delete())
        c.execute(insert(r).values(**copy))
    resets.distrust_maps()
    field.map(topic, RegionMapping(region="r1", epoch=2, first=0))

    done = field.purge(topic)

    assert pin.start == 50
    assert field.start(topic) <= 50, done.floor


def test_region_that_moved_since_the_backup_blocks(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 99)
    field.map(topic, RegionMapping(region="r2"), moved=("r1",))
    for _ in range(2):
        field.purge(topic)
    assert [x.region for x in field.store.regions(topic)] == ["r2"]
    # The backup is made now. Then r1 returns, appends 100..149, and moves away again: the backup does not show it.
    field.place.append(topic, 50)
    resets.distrust_maps()
    field.map(topic, RegionMapping(region="r2"), moved=("r1",))
    field.purge(topic)
    field.flushed(topic, "r2", 149)

    done = field.purge(topic)

    assert field.start(topic) <= 100, done.floor


def test_restored_map_does_not_count_until_sent_again(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    order = MapOrder(topic=topic, generation=7, regions=(RegionMapping(region="r1", first=0),))
    field.maps.put(order)
    field.purge(topic)
    field.flushed(topic, "r1", 49)

    waiting = resets.distrust_maps()
    blocked = field.purge(topic)
    newer = order.model_copy(update={"regions": (RegionMapping(region="r1", epoch=2),)})
    field.maps.put(newer)  # of the same generation, with other regions than in the backup
    zombie = field.flushed(topic, "r1", 89, epoch=0)

    assert waiting == 1
    assert (blocked.floor, [b.why for b in blocked.verdict.blocked]) == (None, [BlockReason.MAP_STALE])
    silent = field.purge(topic).verdict.blocked
    field.flushed(topic, "r1", 59, epoch=2)

    assert (zombie.taken, [b.why for b in silent]) == (0, [BlockReason.SILENT])
    assert field.purge(topic).floor == 60
