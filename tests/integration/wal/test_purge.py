"""Purge topics with both databases, on Kafka and on the embedded log: cases W01 to W27."""

from functools import partial

import pytest

from sexton.kernel.crash_points import OF_WAL, installed
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import BlockReason, Mode
from sexton.wal.orders import RegionDrop, RegionMapping
from tests.integration.wal.field import DAY, Field
from tests.integration.wal.logs import Gone


def block_reasons(field: Field, topic: str) -> set[BlockReason]:
    return {b.why for b in field.purge(topic).verdict.blocked}


def test_w01_topic_without_a_map_is_not_purged(field: Field) -> None:
    topic = field.topic(10)

    assert block_reasons(field, topic) == {BlockReason.NO_REGIONS}

    assert field.start(topic) == 0


def test_w01_empty_topic_is_purged_to_its_end_after_a_day(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.map(topic, dropped=(RegionDrop(region="r1", undrop_seconds=60),))
    field.wait(61)

    assert block_reasons(field, topic) == {BlockReason.NO_REGIONS}
    field.wait(DAY - 3_600)
    field.map(topic)
    assert block_reasons(field, topic) == {BlockReason.NO_REGIONS}
    field.wait(3_700)
    done = field.purge(topic)

    assert (done.floor, done.log_start) == (10, 9)


def test_w02_region_without_a_report_blocks_and_is_named(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", "r2")
    field.flushed(topic, "r1", 40)

    done = field.purge(topic)

    assert [b.why for b in done.verdict.blocked] == [BlockReason.SILENT]
    assert "r2" in done.verdict.blocked[0].said
    assert (done.floor, field.start(topic)) == (None, 0)


def test_w07_all_records_below_the_floor_but_one_are_deleted(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", 120)
    field.flushed(topic, "r2", 99)

    done = field.purge(topic)

    assert (done.floor, done.log_start, done.freed) == (100, 99, 99)
    assert field.place.read(topic, 99)[0] == 99
    with pytest.raises(Gone):
        field.place.read(topic, 98)
    assert field.store.topic(topic).floor == 100


def test_w08_logical_mode_raises_the_floor_and_deletes_nothing(field: Field) -> None:
    topic = field.topic(250, mode=Mode.LOGICAL)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)

    done = field.purge(topic)

    assert (done.floor, done.log_start) == (100, 0)
    assert field.place.read(topic, 0)[0] == 0
    assert [p.done_at is not None for p in field.store.purges(topic)] == [True]


def test_w09_empty_topic_is_not_purged_and_not_recorded(field: Field) -> None:
    topic = field.topic()
    field.map(topic, RegionMapping(region="r1", first=0))

    done = field.purge(topic)

    assert (done.floor, done.freed, done.fault) == (None, 0, "")
    assert field.store.purges(topic) == []


@pytest.mark.parametrize("point", sorted(OF_WAL))
def test_w12_next_purge_finishes_after_a_crash_at_any_point(field: Field, point: str) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)

    with installed(partial(_crash, point)), pytest.raises(Crash):
        field.purge(topic)
    assert field.store.topic(topic).floor == 100
    done = field.purge(topic)

    assert (done.floor, done.log_start) == (100, 99)
    assert [(p.floor, p.done_at is not None) for p in field.store.purges(topic)] == [(100, True)]


def test_w14_repeated_purges_are_recorded_once(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)

    assert {field.purge(topic).log_start for _ in range(3)} == {99}

    assert len(field.store.purges(topic)) == 1


def test_w27_disabled_or_partitioned_topic_is_not_purged(field: Field) -> None:
    two, off = field.topic(partitions=2), field.topic(10)
    field.store.disable(off)
    for topic in (two, off):
        field.map(topic, RegionMapping(region="r1", first=0))

    assert block_reasons(field, two) == {BlockReason.PARTITIONS}
    assert block_reasons(field, off) == {BlockReason.NOT_ENABLED}


def test_block_is_stored_with_the_time_it_began(field: Field) -> None:
    topic = field.topic(10)
    field.purge(topic)
    since = field.store.topic(topic).blocked[BlockReason.NO_REGIONS]
    field.wait(100)

    field.purge(topic)

    assert field.store.topic(topic).blocked == {BlockReason.NO_REGIONS: since}
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    assert field.store.topic(topic).blocked == {}


class Crash(Exception):
    """Ends a purge at a crash point."""


def _crash(at: str, point: str) -> None:
    if point == at:
        raise Crash(point)


def test_entries_deleted_together_are_counted_once(field: Field) -> None:
    topic = field.mapped_topic(250)
    for last in (49, 99):
        field.flushed(topic, "r1", last)
        field.floors.raise_floors(field.place.log.facts([topic]), field.floors.state_before_read([topic]))

    field.purge(topic)

    assert [(p.floor, p.freed) for p in field.store.purges(topic)] == [(100, 99), (50, 0)]


def test_freed_entries_are_counted_by_one_purge(field: Field) -> None:
    topic = field.topic(200)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    for last in (99, 149):  # two purges raise, before either deletes
        field.flushed(topic, "r1", last)
        field.floors.raise_floors(field.place.log.facts([topic]), field.floors.state_before_read([topic]))
    for offset in (99, 149):
        field.place.log.delete_before({topic: offset})
        field.floors.record_log_state(field.place.log.facts([topic]))

    assert [p.freed for p in field.store.purges(topic)] == [50, 99]
    assert field.store.topic(topic).freed == 149


def test_stop_blocks_deletion_below_a_persisted_floor(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 49)
    before = field.floors.state_before_read([topic])
    field.floors.raise_floors(field.place.log.facts([topic]), before)
    controls = ControlStore(field.db)
    controls.put(ControlKind.STOP, ALL, "a test", "the tester")

    stopped = field.purge(topic)
    start_while_stopped = field.start(topic)
    controls.remove(ControlKind.STOP, ALL)
    field.purge(topic)

    assert [b.why for b in stopped.verdict.blocked] == [BlockReason.STOPPED]
    assert (start_while_stopped, field.start(topic)) == (0, 49)
