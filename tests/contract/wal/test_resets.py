"""What an operator may say when the world has changed behind Sexton's back."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import Why
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.port import OldEpoch, ReplayRefused, UnknownRegion, UnknownTopic
from sexton.wal.sql.resets import ResetStore
from tests.contract.wal.field import Field


@pytest.fixture
def resets(field: Field) -> ResetStore:
    return ResetStore(field.db)


def test_a_lost_region_opens_where_an_operator_says_and_is_no_loss_any_more(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0), "r2")
    field.flushed(topic, "r2", 99)
    field.purge(topic)
    field.flushed(topic, "r1", 9)
    field.flushed(topic, "r2", 99)
    field.place.log.delete_before({topic: 40})
    lost = field.purge(topic).verdict.losses
    with pytest.raises(ReplayRefused):
        field.open(topic, "r1", 9)

    region = resets.region(topic, "r1")

    assert [str(m) for m in lost] == ["10..39"]
    assert (region.keep_from, field.store.lost([topic])) == (40, {})
    assert field.open(topic, "r1", 9).start == 40
    assert field.purge(topic).verdict.losses == ()


def test_a_region_is_reset_only_to_what_is_there(field: Field, resets: ResetStore) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    field.place.log.delete_before({topic: 40})
    field.purge(topic)

    for wrong in (39, 101):
        with pytest.raises(BadInput, match="it has 40 to 100"):
            resets.region(topic, "r1", wrong)
    with pytest.raises(UnknownRegion):
        resets.region(topic, "r9")
    with pytest.raises(UnknownTopic):
        resets.region("wal-none", "r1")
    assert resets.region(topic, "r1", 100).keep_from == 100


def test_w21_a_topic_made_anew_is_purged_again_after_a_reset_a_map_and_reports_in_new_epochs(
    field: Field, resets: ResetStore
) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", epoch=3, first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 49, epoch=3)
    field.purge(topic)
    field.place.recreate(topic)
    field.place.append(topic, 60)
    quarantined = field.purge(topic).verdict.quarantine

    resets.topic(topic)
    forgotten = field.purge(topic)
    field.map(topic, RegionMapping(region="r1", epoch=3, first=0))
    late = field.flushed(topic, "r1", 49, epoch=3)  # of before: the old topic's entry
    with pytest.raises(OldEpoch):
        field.open(topic, "r1", None, epoch=3)
    with pytest.raises(ReplayRefused, match="after a reset"):
        field.open(topic, "r1", None, epoch=4)
    resets.region(topic, "r1")
    opened = field.open(topic, "r1", None, epoch=6)
    field.replays.release(opened.id)
    field.flushed(topic, "r1", 19, epoch=6)

    assert "another one" in quarantined
    assert [b.why for b in forgotten.verdict.blocked] == [Why.MAP_STALE, Why.SILENT]
    assert (late.taken, late.ignored, opened.start) == (0, 1, 0)
    assert field.purge(topic).floor == 20
    assert field.start(topic) == 19


def test_after_a_restore_no_map_of_before_counts_and_the_same_one_sent_again_does(
    field: Field, resets: ResetStore
) -> None:
    topic = field.topic(100)
    order = MapOrder(topic=topic, generation=7, regions=(RegionMapping(region="r1", first=0),))
    field.maps.put(order)
    field.purge(topic)
    field.flushed(topic, "r1", 49)

    waiting = resets.restored()
    blocked = field.purge(topic)
    newer = order.model_copy(update={"regions": (RegionMapping(region="r1", epoch=2),)})
    field.maps.put(newer)  # of the same number, and not as the copy knew it
    zombie = field.flushed(topic, "r1", 89, epoch=0)

    assert waiting == 1
    assert (blocked.floor, [b.why for b in blocked.verdict.blocked]) == (None, [Why.MAP_STALE])
    silent = field.purge(topic).verdict.blocked
    field.flushed(topic, "r1", 59, epoch=2)

    assert (zombie.taken, [b.why for b in silent]) == (0, [Why.SILENT])
    assert field.purge(topic).floor == 60


def test_a_stop_of_everything_keeps_what_a_persisted_floor_would_let_go(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 49)
    before = field.floors.state_before_read([topic])
    field.floors.raise_floors(field.place.log.facts([topic]), before)
    controls = ControlStore(field.db)
    controls.put(ControlKind.STOP, ALL, "a test", "the tester")

    stopped = field.purge(topic)
    kept = field.start(topic)
    controls.remove(ControlKind.STOP, ALL)
    field.purge(topic)

    assert [b.why for b in stopped.verdict.blocked] == [Why.STOPPED]
    assert (kept, field.start(topic)) == (0, 49)
