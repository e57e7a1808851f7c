"""A purge obeys signals that arrive at an inconvenient moment."""

import threading
from typing import Any

import pytest
from temporalio.common import RetryPolicy

from sexton.wal.messages import PurgeOutcome, PurgeRoundProgress
from sexton.wal.model import Mode
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.purger import PurgeRounds
from tests.support.eventually import PATIENCE_SECONDS, happened
from tests.workflows.conftest import at_rest, until_doing
from tests.workflows.topics import Topics, rig, settings, topics
from workflows import options

__all__ = ["rig", "settings", "topics"]
"""Fixtures."""
CHILD = "start_child_workflow_execution_initiated_event_attributes"


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["cancel", "pause"])
async def test_purge_signalled_while_preparing_does_not_purge(
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    signal: str,
) -> None:
    name = topics.make(200, "r1")
    topics.wal.purger.preview([name])
    topics.flushed(name, "r1", 149)
    entered, released = threading.Event(), threading.Event()
    original = PurgeRounds.preview

    def look(self: PurgeRounds, topic: str) -> Any:
        entered.set()
        assert released.wait(PATIENCE_SECONDS)
        return original(self, topic)

    monkeypatch.setattr(PurgeRounds, "preview", look)
    handle = await topics.start(name)
    await happened(entered)
    await handle.signal(signal)
    released.set()
    if signal == "pause":
        await topics.until(handle, "PAUSED")
        await at_rest(handle)
        await handle.signal("cancel")
    report = await handle.result()

    assert report.outcome == PurgeOutcome.CANCELLED
    assert (topics.topic(name).floor, topics.topic(name).log_start) == (None, 0)


def review_that_waits(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let reviews wait: return the event that a review has begun, and the one that lets it go on."""
    entered, released = threading.Event(), threading.Event()
    original = PurgeRounds.review

    def review(self: PurgeRounds, after: str, _: Any) -> Any:
        entered.set()
        assert released.wait(PATIENCE_SECONDS)
        return original(self, after, lambda: None)

    monkeypatch.setattr(PurgeRounds, "review", review)
    return entered, released


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["pause", "cancel"])
async def test_signalled_round_starts_no_purge(topics: Topics, monkeypatch: pytest.MonkeyPatch, signal: str) -> None:
    names = [topics.make(20, "r1") for _ in range(3)]
    topics.wal.purger.preview(names)
    for name in names:
        topics.flushed(name, "r1", 9)
    entered, released = review_that_waits(monkeypatch)
    handle = await topics.start_round()
    await happened(entered)
    await handle.signal(signal)
    released.set()
    if signal == "pause":
        await until_doing(handle, "PAUSED", PurgeRoundProgress)
        await at_rest(handle)
        begun = [event async for event in handle.fetch_history_events() if event.HasField(CHILD)]
        await handle.signal("resume")
        counts = await handle.result()
        assert (begun, counts.started) == ([], 3)
    else:
        counts = await handle.result()
        assert counts.started == 0
        assert [topics.topic(name).floor for name in names] == [None, None, None]


@pytest.mark.slow
async def test_retry_ends_the_backoff_of_a_round(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 600.0)
    monkeypatch.setitem(options.WAL_STEP, "retry_policy", RetryPolicy(maximum_attempts=1))
    name = topics.make(20, "r1")
    topics.wal.purger.preview([name])
    topics.flushed(name, "r1", 9)
    original, broken = PurgeRounds.review, [True]

    def review(self: PurgeRounds, after: str, heartbeat: Any) -> Any:
        if broken:
            raise TimeoutError("for the test")
        return original(self, after, heartbeat)

    monkeypatch.setattr(PurgeRounds, "review", review)
    handle = await topics.start_round()
    progress = await until_doing(handle, "BACKING_OFF", PurgeRoundProgress)
    broken.clear()
    await handle.signal("retry")
    counts = await handle.result()

    assert (progress.tries, progress.backoff_seconds, counts.started) == (1, 600.0, 1)


@pytest.mark.slow
async def test_purge_of_a_topic_with_many_idle_regions_ends(topics: Topics) -> None:
    name = "wal-many"
    topics.log.create(name)
    regions = tuple(RegionMapping(region=f"greptime-public-monitoring-region-{n:030d}", first=0) for n in range(30_000))
    topics.wal.maps.put(MapOrder(instance="shop", topic=name, generation=1, regions=regions))
    topics.log.append(name, [b"entry"] * 20)
    topics.wal.store.enable(name, Mode.DELETE, "shop")

    report = await (await topics.start(name)).result()

    assert (report.outcome, topics.topic(name).log_start) == (PurgeOutcome.NOTHING, 0)
