"""Regions that come and go: created, dropped, moved, forgotten by a map; and what of their topic stays for them."""

from sexton.wal.model import RegionState, Why
from sexton.wal.orders import RegionDrop, RegionMapping
from tests.contract.wal.field import Field


def test_w23_a_dropped_region_holds_until_its_drop_cannot_be_undone(field: Field) -> None:
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


def test_w23_a_drop_that_is_undone_holds_again(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 49)
    field.map(topic, dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
    field.map(topic, "r1")
    field.wait(3_601)

    assert field.purge(topic).floor == 50


def test_w24_the_first_entry_after_a_purge_to_the_end_is_read_again(field: Field) -> None:
    topic = field.topic(101)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", None, idle=100)
    assert field.purge(topic).floor == 101

    assert field.place.append(topic, 1) == 101

    pin = field.open(topic, "r1", None)
    assert pin.start == 101
    assert field.place.read(topic, pin.start) == [101]


def test_w26_a_region_that_was_mapped_before_its_first_append_holds_it(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, "r0")
    field.purge(topic)
    field.flushed(topic, "r0", None, idle=49)
    field.map(topic, "r0", RegionMapping(region="r1", first=50))
    first = field.place.append(topic, 20)
    field.flushed(topic, "r0", None, idle=69)

    assert field.purge(topic).floor == 50

    assert field.open(topic, "r1", None).start == first == 50


def test_w26_a_first_entry_above_the_end_that_is_known_is_not_believed(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, RegionMapping(region="r1", first=2**62))

    assert [b.why for b in field.purge(topic).verdict.blocked] == [Why.SILENT]
    assert field.open(topic, "r1", None).start == 0
    assert field.purge(topic).verdict.keep_from == 0


def test_w26_a_region_of_a_topic_that_was_never_looked_at_begins_where_its_owner_says(field: Field) -> None:
    topic = field.topic(50)
    field.place.log.delete_before({topic: 40})
    field.map(topic, RegionMapping(region="r1", first=50))

    pin = field.open(topic, "r1", None)
    field.replays.release(pin.id)

    assert pin.start == 50
    assert (field.purge(topic).verdict.losses, field.purge(topic).floor) == ((), 50)


def test_w28_a_region_that_moved_holds_its_entries_until_they_are_flushed(field: Field) -> None:
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


def test_w28_the_end_of_what_a_region_left_is_not_older_than_its_move(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", None, idle=9)
    field.flushed(topic, "r2", None, idle=9)
    before = field.floors.state_before_read([topic])
    answers = field.place.log.facts([topic])
    field.place.append(topic, 1)  # of r1, and then it moves
    field.map(topic, "r2", moved=("r1",))

    field.floors.raise_floors(answers, before)
    field.flushed(topic, "r2", None, idle=10)

    assert field.purge(topic).floor == 10
    assert [r.region for r in field.store.regions(topic)] == ["r1", "r2"]


def test_w28_a_region_that_the_map_forgot_goes_on_to_hold(field: Field) -> None:
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
