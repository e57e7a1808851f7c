"""Opening a region: where it begins, what holds its entries meanwhile, and when it must not open."""

import pytest

from sexton.wal.model import KeepFromSource
from sexton.wal.orders import RegionMapping
from sexton.wal.port import OldEpoch, OldMap, PinEnded, ReplayRefused, UnknownRegion, UnknownTopic
from tests.contract.wal.field import Field


@pytest.fixture
def topic(field: Field) -> str:
    """A topic of 200 entries; region r1 needs those from 50 on, r2 those from 150 on."""
    name = field.topic(200)
    field.map(name, "r1", "r2")
    field.purge(name)
    field.flushed(name, "r1", 49)
    field.flushed(name, "r2", 149)
    return name


def test_w10_what_kafka_itself_deleted_is_a_loss_and_a_region_that_needs_it_does_not_open(
    field: Field, topic: str
) -> None:
    field.place.log.delete_before({topic: 80})

    done = field.purge(topic)

    assert [(m.region, str(m)) for m in done.verdict.losses] == [("r1", "50..79")]
    assert done.floor == 50
    with pytest.raises(ReplayRefused, match=r"50\.\.79") as refused:
        field.open(topic, "r1", 49)
    assert refused.value.missing is not None
    assert (refused.value.missing.first, refused.value.missing.last) == (50, 79)
    assert field.open(topic, "r2", 149).start == 150


def test_w15_what_a_region_reads_stays_until_it_has_read(field: Field, topic: str) -> None:
    pin = field.open(topic, "r1", 49)
    field.flushed(topic, "r1", 120, epoch=1)

    held = field.purge(topic)

    assert (held.floor, held.verdict.holders) == (50, (f"replay {pin.id} of region r1",))
    assert field.place.read(topic, pin.start)[0] == 50
    field.replays.release(pin.id)
    field.replays.release(pin.id)
    assert field.purge(topic).floor == 121


def test_w16_a_reader_that_died_holds_until_its_pin_runs_out(field: Field, topic: str) -> None:
    pin = field.open(topic, "r1", 49)
    field.flushed(topic, "r1", 120, epoch=1)
    field.wait(299)
    assert field.replays.renew(pin.id).expires_at > pin.expires_at

    field.wait(299)
    assert field.purge(topic).floor == 50
    field.wait(2)

    assert field.purge(topic).floor == 121
    with pytest.raises(PinEnded):
        field.replays.renew(pin.id)


def test_a_pin_is_not_renewed_for_ever(field: Field, topic: str) -> None:
    pin = field.open(topic, "r1", 49)
    for _ in range(4):
        field.wait(249)
        pin = field.replays.renew(pin.id)

    field.wait(5)
    with pytest.raises(PinEnded):
        field.replays.renew(pin.id)


def test_w17_a_region_begins_after_its_idle_mark(field: Field, topic: str) -> None:
    field.flushed(topic, "r1", 49, idle=179)

    assert field.open(topic, "r1", 49).start == 180


def test_w17_a_region_whose_manifest_was_restored_is_refused_below_the_floor(field: Field, topic: str) -> None:
    field.purge(topic)

    with pytest.raises(ReplayRefused, match=r"30\.\.49"):
        field.open(topic, "r1", 29)


def test_a_restored_manifest_above_the_floor_is_needed_again_and_late_reports_do_not_count(
    field: Field, topic: str
) -> None:
    field.purge(topic)
    field.flushed(topic, "r1", 120)

    pin = field.open(topic, "r1", 69, epoch=1)
    late = field.flushed(topic, "r1", 120, epoch=0)
    field.replays.release(pin.id)

    assert (pin.start, late.ignored) == (70, 1)
    needs = {r.region: (r.keep_from, r.source) for r in field.store.regions(topic)}
    assert needs["r1"] == (70, KeepFromSource.OPENED)
    assert field.purge(topic).floor == 70


def test_a_restored_manifest_needs_a_new_epoch(field: Field, topic: str) -> None:
    field.map(topic, RegionMapping(region="r1", epoch=4), "r2")
    field.flushed(topic, "r1", 120, epoch=4)

    with pytest.raises(OldEpoch, match="open it in a new epoch"):
        field.open(topic, "r1", 69, epoch=4)
    with pytest.raises(OldEpoch, match="has a leader of epoch 4"):
        field.open(topic, "r1", 120, epoch=3)


def test_w18_a_region_that_begins_below_the_log_start_is_refused(field: Field, topic: str) -> None:
    field.place.log.delete_before({topic: 60})
    field.purge(topic)

    with pytest.raises(ReplayRefused, match=r"50\.\.59"):
        field.open(topic, "r1", 49)


def test_what_nobody_mapped_does_not_open(field: Field, topic: str) -> None:
    with pytest.raises(UnknownTopic):
        field.open("wal-none", "r1", 49)
    with pytest.raises(UnknownRegion, match="r9"):
        field.open(topic, "r9", 49)


def test_a_region_of_which_nothing_is_known_does_not_open(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, "r1")

    with pytest.raises(ReplayRefused, match="no manifest, and it has not reported"):
        field.open(topic, "r1", None)


def test_a_region_that_never_flushed_begins_where_it_was_mapped(field: Field) -> None:
    topic = field.topic(10)
    field.purge(topic)
    field.map(topic, RegionMapping(region="r1", first=4))

    assert field.open(topic, "r1", None).start == 4


def test_an_old_map_and_one_that_begins_below_the_floor_are_refused(field: Field, topic: str) -> None:
    from sexton.kernel.errors import BadInput

    field.purge(topic)
    with pytest.raises(BadInput, match="cannot begin at 49"):
        field.map(topic, "r1", "r2", RegionMapping(region="r3", first=49))
    with pytest.raises(BadInput, match="region r1 appears more than once"):
        field.map(topic, "r1", moved=("r1",))
    field.map(topic, "r1", "r2")
    field._generation = 0
    with pytest.raises(OldMap):
        field.map(topic, "r1")
    assert [r.region for r in field.store.regions(topic)] == ["r1", "r2"]
