"""Reports, openings and replays of a region count only from its own node: the map's, or the first that came."""

import pytest

from sexton.kernel.live import Live
from sexton.wal.policy import OpenRegionOrder, RegionMapping, RegionMove
from sexton.wal.port import RegionOfAnotherNode
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.topic_stores import TopicStores


def of_node(node: str, region: str = "r1", epoch: int = 0) -> RegionMapping:
    return RegionMapping(region=region, epoch=epoch, first=0, node=node)


def order(topic: str, node: str, epoch: int) -> OpenRegionOrder:
    return OpenRegionOrder(topic=topic, region="r1", epoch=epoch, flushed=(99,), node=node)


def test_report_of_another_node_moves_only_its_own_regions(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node("n1"), of_node("n2", "r2"))
    before = topics.store.regions(topic)

    with pytest.raises(RegionOfAnotherNode, match=r"is node n1's, not n2's.*map must name it"):
        topics.node_reports(topic, "n2", "r1")
    assert topics.store.regions(topic) == before
    with pytest.raises(RegionOfAnotherNode):
        topics.node_reports(topic, "n2", "r1", "r2")

    assert {r.region: r.keep_from for r in topics.store.regions(topic)} == {"r1": 0, "r2": 100}
    assert not topics.purge(topic).floor
    topics.node_reports(topic, "n1", "r1", last=49)
    assert topics.purge(topic).floor == 50


def test_another_node_does_not_open_a_region(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node("n1"))
    before = topics.store.regions(topic)

    for epoch in (0, 1, 7):
        with pytest.raises(RegionOfAnotherNode, match="is node n1's, not n2's"):
            topics.replays.open(order(topic, "n2", epoch))

    assert topics.store.regions(topic) == before
    for epoch in (0, 1, 7):
        assert topics.replays.open(order(topic, "n1", epoch)).node == "n1"


def test_first_node_holds_a_region_without_a_named_one(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node(""), of_node("", "r2"))
    topics.replays.open(order(topic, "n1", 1))
    topics.node_reports(topic, "n1", "r2", last=9)

    for epoch in (1, 2):
        with pytest.raises(RegionOfAnotherNode):
            topics.replays.open(order(topic, "n2", epoch))
    with pytest.raises(RegionOfAnotherNode):
        topics.node_reports(topic, "n2", "r1", epoch=1)
    with pytest.raises(RegionOfAnotherNode):
        topics.node_reports(topic, "n2", "r2")

    assert {r.region: r.leader for r in topics.store.regions(topic)} == {"r1": "n1", "r2": "n1"}
    assert {r.region: r.keep_from for r in topics.store.regions(topic)} == {"r1": 0, "r2": 10}


def test_newer_epoch_of_the_map_frees_a_region(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node(""))
    topics.replays.open(order(topic, "n1", 1))
    topics.map(topic, of_node("", epoch=1))
    with pytest.raises(RegionOfAnotherNode):
        topics.replays.open(order(topic, "n2", 2))

    topics.map(topic, of_node("", epoch=2))

    assert topics.replays.open(order(topic, "n2", 2)).node == "n2"
    with pytest.raises(RegionOfAnotherNode):
        topics.node_reports(topic, "n1", "r1", epoch=2)


def test_map_gives_a_region_to_another_node(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node("n1"))
    pin = topics.replays.open(order(topic, "n1", 1))
    topics.node_reports(topic, "n1", "r1", epoch=1, last=150)  # above the known end

    topics.map(topic, of_node("n2"))

    with pytest.raises(RegionOfAnotherNode, match="is node n2's"):
        topics.node_reports(topic, "n1", "r1", epoch=1)
    with pytest.raises(RegionOfAnotherNode, match="is node n2's"):
        topics.replays.renew(pin.id)
    (region,) = topics.store.regions(topic)
    assert (region.leader, region.pending_keep_from) == ("n2", None)
    assert topics.replays.open(order(topic, "n2", 2)).node == "n2"


def test_map_names_the_node_of_a_moved_region(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node("n1"), of_node("n1", "r2"))
    topics.replays.open(order(topic, "n1", 1))

    topics.map(topic, of_node("n1", "r2"), moved=(RegionMove(region="r1", epoch=2, node="n2"),))

    with pytest.raises(RegionOfAnotherNode):
        topics.replays.open(order(topic, "n1", 2))
    assert topics.replays.open(order(topic, "n2", 2)).node == "n2"


def test_reset_frees_a_region_unless_the_map_names_a_node(topics: TopicStores, resets: ResetStore) -> None:
    topic = topics.mapped_topic(100, of_node(""), of_node("n1", "r2"))
    topics.replays.open(order(topic, "n1", 1))
    topics.node_reports(topic, "n1", "r2", last=9)

    resets.reset_region(topic, "r1", 50)
    resets.reset_region(topic, "r2", 50)

    assert {r.region: r.leader for r in topics.store.regions(topic)} == {"r1": "", "r2": "n1"}
    assert topics.replays.open(order(topic, "n2", 2)).start == 50


def test_lagging_region_is_asked_at_the_node_of_the_map(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, of_node("n1"))
    topics.heartbeats.record_reports("shop", "n1", [], "http://n1:4000")
    floors = topics.floors
    floors._settings = Live.of(floors._settings().model_copy(update={"trigger_flush_entries": 10}))

    assert [(r.node, r.url) for r in floors.regions_to_flush([topic])] == [("n1", "http://n1:4000")]
