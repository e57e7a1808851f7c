"""A map of an owner is accepted only if it is newer and free of contradictions."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.wal.orders import MapOrder, RegionDrop, RegionMapping
from sexton.wal.port import OldEpoch, OldMap
from tests.integration.wal.field import Field


def test_generation_has_one_map(field: Field) -> None:
    topic = field.mapped_topic(10)
    field._generation -= 1
    with pytest.raises(OldMap, match="another map of generation"):
        field.map(topic, dropped=(RegionDrop(region="r1"),))

    field._generation -= 1
    field.map(topic, RegionMapping(region="r1", first=0))


def test_map_ends_the_epochs_below_its_own(field: Field) -> None:
    topic = field.mapped_topic(10)
    field.map(topic, RegionMapping(region="r1", epoch=5))

    with pytest.raises(OldEpoch):
        field.open(topic, "r1", None, epoch=4)


def test_repeated_map_with_less_undrop_time_is_the_same(field: Field) -> None:
    topic = field.topic(10)
    order = MapOrder(
        topic=topic,
        generation=7,
        regions=(RegionMapping(region="r1"), RegionMapping(region="r2")),
        dropped=(RegionDrop(region="r3", undrop_seconds=7_200),),
    )
    field.maps.put(order)
    field.wait(3_600)
    again = {"regions": order.regions[::-1], "dropped": (RegionDrop(region="r3", undrop_seconds=3_600),)}

    assert field.maps.put(order.model_copy(update=again)).generation == 7


def test_old_or_contradictory_map_is_refused(field: Field, topic: str) -> None:

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
