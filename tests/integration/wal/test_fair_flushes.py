"""Regions of one node leave places among the requests to flush for those of the others."""

from collections.abc import Sequence

import pytest

from sexton.operators.controls.store import ControlStore
from sexton.wal import flushing
from sexton.wal.flushing import Flusher
from sexton.wal.model import FlushCandidate, Flushed
from sexton.wal.policy import RegionMapping
from sexton.wal.sql.floors import FloorStore
from tests.integration.wal.topic_stores import WAL_SETTINGS, TopicStores
from tests.support.clock import Clock

ENTRIES, PLACES, MANY = 30, 6, 40
SETTINGS = WAL_SETTINGS.model_copy(update={"trigger_flush_entries": 10})


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


def lagging_topic(topics: TopicStores, *nodes: str) -> str:
    """Make a topic with one lagging region for each node that is named."""
    regions = (RegionMapping(region=f"r{n:02}", first=0, node=node) for n, node in enumerate(nodes))
    return topics.mapped_topic(ENTRIES, *regions)


def report_address(topics: TopicStores, node: str) -> None:
    topics.node_reports("-", node, "-", url=f"http://{node}")


def flush(topics: TopicStores, topic: str) -> tuple[dict[str, list[str]], Flushed]:
    nodes, floors = AskedNodes(), FloorStore(topics.db, SETTINGS, ControlStore(topics.db))
    flushed = Flusher(floors, nodes, 60.0, lambda _: None).flush(topic, lambda: None)
    return nodes.regions, flushed


def test_nodes_without_an_address_take_no_place(topics: TopicStores) -> None:
    topic = lagging_topic(topics, *(f"invented-{n}" for n in range(MANY)), "n1")
    report_address(topics, "n1")

    asked, flushed = flush(topics, topic)

    assert asked == {"http://n1": [f"{topic}/r{MANY}"]}
    assert flushed.asked == 1
    assert "never reported" in flushed.silent["invented-0"]


def test_nodes_of_a_topic_take_turns(topics: TopicStores) -> None:
    topic = lagging_topic(topics, *["slow"] * MANY, "quick", "quick")
    for node in ("slow", "quick"):
        report_address(topics, node)

    asked, flushed = flush(topics, topic)

    assert asked == {
        "http://slow": [f"{topic}/r{n:02}" for n in range(4)],
        "http://quick": [f"{topic}/r40", f"{topic}/r41"],
    }
    assert flushed.asked == PLACES
