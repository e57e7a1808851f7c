"""Regions that are created, dropped, moved, or forgotten by a map, and the entries that are retained for them."""

import pytest

from sexton.wal.model import BlockReason, RegionState
from sexton.wal.orders import RegionDrop, RegionMapping
from sexton.wal.purger import Purger
from tests.integration.wal.fake_logs import InterruptedLog
from tests.integration.wal.field import Field


def test_w23_dropped_region_blocks_until_its_drop_is_final(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", 49)
    field.flushed(topic, "r2", 99)
    field.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))

    assert field.purge(topic).floor == 50
    field.wait(3_601)
    assert field.purge(topic).floor == 100
    assert [r.region for r in field.store.regions(topic)] == ["r2"]


def test_w23_undropped_region_blocks_again(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 49)
    field.map(topic, dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
    field.map(topic, "r1")
    field.wait(3_601)

    assert field.purge(topic).floor == 50


def test_w24_first_entry_after_a_purge_to_the_end_is_read(field: Field) -> None:
    topic = field.topic(101)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", None, idle=100)
    assert field.purge(topic).floor == 101

    assert field.place.append(topic, 1) == 101

    pin = field.open(topic, "r1", None)
    assert pin.start == 101
    assert field.place.read(topic, pin.start) == [101]


def test_w26_region_mapped_before_its_first_append_retains_it(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, "r0")
    field.purge(topic)
    field.flushed(topic, "r0", None, idle=49)
    field.map(topic, "r0", RegionMapping(region="r1", first=50))
    first = field.place.append(topic, 20)
    field.flushed(topic, "r0", None, idle=69)

    assert field.purge(topic).floor == 50

    assert field.open(topic, "r1", None).start == first == 50


def test_w26_first_entry_above_the_known_end_does_not_count(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, RegionMapping(region="r1", first=2**62))

    assert [b.why for b in field.purge(topic).verdict.blocked] == [BlockReason.SILENT]
    assert field.open(topic, "r1", None).start == 0
    assert field.purge(topic).verdict.keep_from == 0


def test_w26_region_of_an_unseen_topic_begins_at_its_map(field: Field) -> None:
    topic = field.topic(50)
    field.place.log.delete_before({topic: 40})
    field.map(topic, RegionMapping(region="r1", first=50))

    pin = field.open(topic, "r1", None)
    field.replays.release(pin.id)

    assert pin.start == 50
    assert (field.purge(topic).verdict.losses, field.purge(topic).floor) == ((), 50)


def test_w28_moved_region_blocks_until_its_entries_are_flushed(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", 39)
    field.flushed(topic, "r2", 89)
    field.map(topic, "r2", moved=("r1",))
    field.place.append(topic, 10)

    assert field.purge(topic).floor == 40
    field.flushed(topic, "r1", 60)
    field.flushed(topic, "r2", 105)
    assert field.purge(topic).floor == 61
    field.flushed(topic, "r1", 60, idle=109)
    assert field.purge(topic).floor == 106
    assert [r.region for r in field.store.regions(topic)] == ["r2"]


def test_w28_end_for_a_moved_region_is_read_after_its_move(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", None, idle=9)
    field.flushed(topic, "r2", None, idle=9)
    before = field.floors.state_before_read([topic])
    answers = field.place.log.facts([topic])
    field.place.append(topic, 1)  # r1 appends, and then it moves
    field.map(topic, "r2", moved=("r1",))

    field.floors.raise_floors(answers, before)
    field.flushed(topic, "r2", None, idle=10)

    assert field.purge(topic).floor == 10
    assert [r.region for r in field.store.regions(topic)] == ["r1", "r2"]


def test_w28_region_missing_from_the_map_still_blocks(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", 39)
    field.flushed(topic, "r2", 89)
    field.map(topic, "r2")

    assert field.purge(topic).floor == 40
    assert {r.region: r.state for r in field.store.regions(topic)} == {
        "r1": RegionState.MAPPED,
        "r2": RegionState.MAPPED,
    }


def test_region_that_returned_and_left_has_newer_entries(field: Field) -> None:
    topic = field.mapped_topic(100, "r1", "r2")
    field.flushed(topic, "r1", None, idle=99)
    field.flushed(topic, "r2", None, idle=99)
    field.map(topic, "r2", moved=("r1",))

    def meanwhile() -> None:
        field.map(topic, "r1", "r2")
        field.place.append(topic, 10)  # of r1, in memory only
        field.map(topic, "r2", moved=("r1",))

    Purger(InterruptedLog(field.place, meanwhile), field.floors).purge([topic])
    field.flushed(topic, "r2", None, idle=109)
    for _ in range(2):
        field.purge(topic)

    assert "r1" in [r.region for r in field.store.regions(topic)]
    assert field.start(topic) <= 100


@pytest.mark.parametrize("departure", ["moved", "dropped"])
def test_region_that_left_before_its_first_map_blocks(field: Field, departure: str) -> None:
    topic = field.topic(100)
    if departure == "moved":
        field.map(topic, "r2", moved=("r1",))
    else:
        field.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
    field.purge(topic)
    field.flushed(topic, "r2", 89)

    done = field.purge(topic)

    assert "r1" in done.verdict.blocked[0].said
    assert field.start(topic) == 0


def test_released_region_named_as_moved_again_does_not_block(field: Field) -> None:
    topic = field.mapped_topic(100, "r1", "r2")
    field.flushed(topic, "r1", None, idle=99)
    field.flushed(topic, "r2", 59)
    for _ in range(3):
        field.map(topic, "r2", moved=("r1",))
        field.purge(topic)

    assert field.purge(topic).floor == 60
    assert [r.region for r in field.store.regions(topic)] == ["r2"]


def test_second_drop_has_its_own_undrop_window(field: Field) -> None:
    topic = field.mapped_topic(100, "r1", "r2")
    field.flushed(topic, "r1", 9)
    field.flushed(topic, "r2", 89)
    for seconds in (3_000, 700):
        field.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
        field.wait(seconds)

    assert field.purge(topic).floor == 10
