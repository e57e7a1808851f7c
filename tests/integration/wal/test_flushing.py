"""Nodes are asked to flush the regions that block purges, with a timeout."""

from contextlib import ExitStack

import pytest

from sexton.operators.controls.store import ControlStore
from sexton.runtime.embedded.ports import free_port
from sexton.wal import flushing
from sexton.wal.flushing import Flusher
from sexton.wal.messages import NodeAddresses
from sexton.wal.model import FlushCandidate, Flushed
from sexton.wal.nodes import HttpFlushClient
from sexton.wal.sql.floors import FloorStore
from tests.integration.wal.flushing_node import FlushedRegions, flushing_node
from tests.integration.wal.topic_stores import WAL_SETTINGS, TopicStores

LAG = 1_000
HERE = NodeAddresses(loopback=True)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "POLL_SECONDS", 0.02)


def flush(topics: TopicStores, topic: str, *, seconds: float = 10.0) -> Flushed:
    settings = WAL_SETTINGS.model_copy(update={"trigger_flush_entries": LAG})
    floors = FloorStore(topics.db, settings, ControlStore(topics.db))
    client = HttpFlushClient(HERE, 1.0)
    return Flusher(floors, client, seconds, topics.purger.preview).flush(topic, lambda: None)


def lagging(topics: TopicStores, lags: dict[str, int]) -> str:
    """Make a topic whose regions lag by these numbers of entries; their nodes have reported no address."""
    topic = topics.topic(3_000)
    topics.map(topic, *lags)
    topics.purge(topic)
    for region, lag in lags.items():
        topics.node_reports(topic, f"node-{region}", region, last=3_000 - lag - 1)
    return topic


def test_w19_only_regions_above_the_lag_threshold_are_asked(topics: TopicStores) -> None:
    topic = lagging(topics, {"r1": LAG - 1, "r2": LAG, "r3": LAG + 1})
    requests: list[FlushedRegions] = []

    def flushes(regions: FlushedRegions) -> int:
        requests.append(regions)
        topics.node_reports(topic, "node-r3", "r3", last=2_999)
        return 202

    with flushing_node(flushes) as url:
        for region, lag in (("r1", LAG - 1), ("r2", LAG), ("r3", LAG + 1)):
            topics.node_reports(topic, f"node-{region}", region, last=3_000 - lag - 1, url=url)
        result = flush(topics, topic)

    assert requests == [[(topic, "r3")]]
    assert result == Flushed(asked=1, flushed=1)
    assert topics.purge(topic).floor == 3_000 - LAG


def test_w20_silent_node_blocks_only_its_own_and_is_named(topics: TopicStores) -> None:
    topic = lagging(topics, dict.fromkeys(["quick", "slow", "down", "302", "404", "503", "unknown"], 2_900))
    down = f"http://127.0.0.1:{free_port()}"
    topics.node_reports(topic, "node-down", "down", last=499)

    def flushes(regions: FlushedRegions) -> int:
        topics.node_reports(topic, "node-quick", "quick", last=2_999)
        return 202

    with ExitStack() as stack:
        answers = {"quick": flushes, "slow": lambda _: 202}
        answers |= {status: lambda _, status=status: int(status) for status in ("302", "404", "503")}
        urls = {name: stack.enter_context(flushing_node(answer)) for name, answer in answers.items()}
        for region, url in (urls | {"down": down}).items():
            topics.node_reports(topic, f"node-{region}", region, last=99, url=url)
        result = flush(topics, topic, seconds=2.0)

    assert (result.asked, result.flushed, result.late) == (2, 1, (f"{topic}/slow",))
    assert result.silent.keys() == {"node-down", "node-302", "node-404", "node-503", "node-unknown"}
    assert down in result.silent["node-down"]
    for status in ("302", "404", "503"):
        assert result.silent[f"node-{status}"] == f"{urls[status]} answers {status}"
    assert "never reported" in result.silent["node-unknown"]
    needs = {region.region: region.keep_from for region in topics.store.regions(topic)}
    assert needs == {"quick": 3_000} | dict.fromkeys(["slow", "302", "404", "503", "unknown"], 100) | {"down": 500}
    assert topics.purge(topic).floor == 100


def test_flush_above_the_known_end_counts(topics: TopicStores) -> None:
    topic = lagging(topics, {"r1": 2_900})

    def flushes(regions: FlushedRegions) -> int:
        last = topics.place.append(topic, 10) + 9
        topics.node_reports(topic, "node-r1", "r1", last=last)
        return 202

    with flushing_node(flushes) as url:
        topics.node_reports(topic, "node-r1", "r1", last=99, url=url)
        result = flush(topics, topic)

    assert result == Flushed(asked=1, flushed=1)
    assert topics.purge(topic).floor == 3_010


def lagging_region(node: str) -> FlushCandidate:
    return FlushCandidate(topic="t", region=f"of {node}", node=node, keep_from=0, entries=1, url=f"http://{node}")
