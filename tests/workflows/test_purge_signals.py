"""A purge obeys signals that arrive at an inconvenient moment."""

import asyncio
import threading
from typing import Any

import pytest
from temporalio.common import RetryPolicy

from sexton.wal.messages import PurgeOutcome, PurgeRoundProgress
from sexton.wal.model import Mode
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.rounds import PurgeRounds
from tests.workflows.topics import Topics, rig, settings, topics
from workflows import options

__all__ = ["rig", "settings", "topics"]
"""Fixtures."""


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
        assert released.wait(20)
        return original(self, topic)

    monkeypatch.setattr(PurgeRounds, "preview", look)
    handle = await topics.start(name)
    await asyncio.to_thread(entered.wait, 20)
    await handle.signal(signal)
    await asyncio.sleep(2)
    released.set()
    await asyncio.sleep(3)
    floor, start = topics.topic(name).floor, topics.topic(name).log_start
    if signal == "pause":
        await handle.signal("cancel")
    report = await asyncio.wait_for(handle.result(), 20)

    assert (report.outcome, floor, start) == (PurgeOutcome.CANCELLED, None, 0)


def review_that_waits(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let reviews wait: return the event that a review has begun, and the one that lets it go on."""
    entered, released = threading.Event(), threading.Event()
    original = PurgeRounds.review

    def review(self: PurgeRounds, after: str, _: Any) -> Any:
        entered.set()
        assert released.wait(20)
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
    await asyncio.to_thread(entered.wait, 20)
    await handle.signal(signal)
    await asyncio.sleep(1)
    released.set()
    await asyncio.sleep(3)
    floors = [topics.topic(name).floor for name in names]
    if signal == "pause":
        progress = await handle.query("progress", result_type=PurgeRoundProgress)
        assert progress.doing == "PAUSED"
        await handle.signal("resume")
    counts = await asyncio.wait_for(handle.result(), 20)

    assert floors == [None, None, None]
    assert counts.started == (3 if signal == "pause" else 0)


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
    while (progress := await handle.query("progress", result_type=PurgeRoundProgress)).doing != "BACKING_OFF":
        await asyncio.sleep(0.05)
    broken.clear()
    await handle.signal("retry")
    counts = await asyncio.wait_for(handle.result(), 20)

    assert (progress.tries, progress.backoff_seconds, counts.started) == (1, 600.0, 1)


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_purge_of_a_topic_with_many_idle_regions_ends(topics: Topics) -> None:
    name = "wal-many"
    topics.log.create(name)
    regions = tuple(RegionMapping(region=f"greptime-public-monitoring-region-{n:030d}", first=0) for n in range(30_000))
    topics.wal.maps.put(MapOrder(instance="shop", topic=name, generation=1, regions=regions))
    topics.log.append(name, [b"entry"] * 20)
    topics.wal.store.enable(name, Mode.DELETE, "shop")
    handle = await topics.start(name)
    ended = asyncio.ensure_future(handle.result())
    await asyncio.wait({ended}, timeout=150)
    description = await handle.describe()
    pending = [
        (p.activity_type.name, p.attempt, p.last_failure.message)
        for p in description.raw_description.pending_activities
    ]
    if not ended.done():
        ended.cancel()

    assert ended.done(), (description.status, pending)
