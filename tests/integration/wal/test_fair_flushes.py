"""Regions of one node leave places among the requests to flush for those of the others."""

from collections.abc import Sequence

import pytest

from sexton.operators.controls.store import ControlStore
from sexton.wal import flushing
from sexton.wal.flushing import Flusher
from sexton.wal.model import FlushCandidate, Flushed, Mode
from sexton.wal.orders import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.sql.floors import FloorStore
from tests.integration.wal.topic_stores import WAL_SETTINGS, TopicStores
from tests.support.clock import Clock

ENTRIES, PLACES, MANY = 30, 6, 40
SETTINGS = WAL_SETTINGS.model_copy(update={"flush_entries": 10})


class AskedNodes:
    """Takes every request to flush, and remembers the regions of each node."""

    def __init__(self) -> None:
        self.regions: dict[str, list[str]] = {}

    def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
        self.regions.setdefault(url, []).extend(f"{region.topic}/{region.region}" for region in regions)


@pytest.fixture(autouse=True)
def _few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "time", Clock())  # no node flushes, and the timeout is over at once
    monkeypatch.setattr(flushing, "MAX_REGIONS", PLACES)


def lagging_topic(topics: TopicStores, instance: str, nodes: Sequence[str]) -> str:
    """Make a topic of an instance with one lagging region for each node that is named."""
    topic = topics.place.topic()
    topics.place.append(topic, ENTRIES)
    topics.store.enable(topic, Mode.DELETE, instance)
    regions = tuple(RegionMapping(region=f"r{n:02}", first=0, node=node) for n, node in enumerate(nodes))
    topics.maps.put(MapOrder(instance=instance, topic=topic, generation=1, regions=regions))
    topics.purge(topic)
    return topic


def reports_address(topics: TopicStores, instance: str, node: str) -> None:
    report = LeaderReport(topic="-", region="-", epoch=0, streams=(Stream(),))
    topics.heartbeats.record_reports(instance, node, [report], f"http://{node}.{instance}")


def flush(topics: TopicStores, topic: str) -> tuple[dict[str, list[str]], Flushed]:
    nodes, floors = AskedNodes(), FloorStore(topics.db, SETTINGS, ControlStore(topics.db))
    flushed = Flusher(floors, nodes, 60.0, lambda _: None).flush(topic, lambda: None)
    return nodes.regions, flushed


def test_nodes_without_an_address_take_no_place(topics: TopicStores) -> None:
    topic = lagging_topic(topics, "shop", [*(f"invented-{n}" for n in range(MANY)), "n1"])
    reports_address(topics, "shop", "n1")

    asked, flushed = flush(topics, topic)

    assert asked == {"http://n1.shop": [f"{topic}/r{MANY}"]}
    assert flushed.asked == 1
    assert "never reported" in flushed.silent["invented-0"]


def test_nodes_of_a_topic_take_turns(topics: TopicStores) -> None:
    topic = lagging_topic(topics, "shop", [*["slow"] * MANY, "quick", "quick"])
    for node in ("slow", "quick"):
        reports_address(topics, "shop", node)

    asked, flushed = flush(topics, topic)

    assert asked == {
        "http://slow.shop": [f"{topic}/r{n:02}" for n in range(4)],
        "http://quick.shop": [f"{topic}/r40", f"{topic}/r41"],
    }
    assert flushed.asked == PLACES
