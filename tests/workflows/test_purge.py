"""Purges run on a real Temporal server with the embedded log and an HTTP node, and obey signals at any moment."""

import asyncio
import datetime as dt
import threading
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from sexton.wal.messages import (
    PurgeOutcome,
    PurgeRoundProgress,
)
from sexton.wal.policy import MapOrder, RegionMapping
from sexton.wal.port import LogFault
from sexton.wal.purger import PurgeRounds
from sexton.wal.sql.embedded_log import EmbeddedLog
from tests.integration.wal.flushing_node import flushing_node
from tests.support.eventually import PATIENCE_SECONDS, happened
from tests.workflows.conftest import at_rest, until_doing, until_started
from tests.workflows.topics import Node, Topics, settings, topics
from workflows import options

__all__ = ["settings", "topics"]  # fixtures


async def test_lagging_regions_flush_before_the_purge(topics: Topics) -> None:
    name = topics.make(200, "r1", "r2")
    flush_node = Node(topics, ["r1"])
    with flushing_node(flush_node) as url:
        topics.flushed(name, "r1", 9, url)
        topics.flushed(name, "r2", 180, url)
        topics.wal.purger.preview([name])  # both reports are above the end known so far
        handle = await topics.start(name)
        report = await handle.result()

    assert flush_node.asked == [(name, "r1")]
    assert (report.outcome, report.flushed.asked, report.flushed.flushed) == (PurgeOutcome.PURGED, 1, 1)
    assert (topics.topic(name).floor, topics.topic(name).log_start, topics.topic(name).freed) == (181, 180, 180)


async def test_w14_second_purge_of_a_topic_is_refused(topics: Topics) -> None:
    name = topics.make(200, "r1")
    flush_node = Node(topics, [])
    with flushing_node(flush_node) as url:
        topics.flushed(name, "r1", 9, url)
        topics.wal.purger.preview([name])
        first = await topics.start(name)
        await topics.until(first, "FLUSHING")
        with pytest.raises(WorkflowAlreadyStartedError):
            await topics.start(name)
        await first.signal("purge_now")
        report = await first.result()

    assert (report.outcome, topics.topic(name).floor) == (PurgeOutcome.PURGED, 10)


@pytest.mark.slow
async def test_paused_purge_deletes_nothing_until_resumed(topics: Topics) -> None:
    name, other = topics.make(200, "r1"), topics.make(200, "r1")
    flush_node = Node(topics, [])
    with flushing_node(flush_node) as url:
        for topic_name in (name, other):
            topics.flushed(topic_name, "r1", 9, url)
        topics.wal.purger.preview([name, other])
        handles = [await topics.start(topic_name) for topic_name in (name, other)]
        for handle in handles:
            await topics.until(handle, "FLUSHING")
            await handle.signal("pause")
            await topics.until(handle, "PAUSED")
        floors = [topics.topic(topic_name).floor for topic_name in (name, other)]
        await handles[0].signal("purge_now")
        await handles[0].signal("resume")
        await handles[1].signal("cancel")
        reports = [await handle.result() for handle in handles]

    assert floors == [None, None]
    assert [r.outcome for r in reports] == [PurgeOutcome.PURGED, PurgeOutcome.CANCELLED]
    assert [topics.topic(topic_name).floor for topic_name in (name, other)] == [10, None]


async def test_retry_repeats_a_purge_after_a_transient_fault(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    name = topics.make(20, "r1")
    topics.flushed(name, "r1", 9)
    broken = threading.Event()
    broken.set()
    delete_before = EmbeddedLog.delete_before

    def delete(self: EmbeddedLog, offsets: dict[str, int]) -> Any:
        if broken.is_set():
            return {t: LogFault(t, "REQUEST_TIMED_OUT", "the test's", passes=True) for t in offsets}
        return delete_before(self, offsets)

    monkeypatch.setattr(EmbeddedLog, "delete_before", delete)
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 600.0)
    topics.wal.purger.preview([name])
    handle = await topics.start(name)
    waiting = await topics.until(handle, "BACKING_OFF")
    failed_topic = topics.topic(name)
    broken.clear()
    await handle.signal("retry")
    report = await handle.result()

    assert ("REQUEST_TIMED_OUT" in waiting.error, waiting.tries) == (True, 1)
    assert ("REQUEST_TIMED_OUT" in failed_topic.fault, failed_topic.floor, failed_topic.log_start) == (True, 10, 0)
    assert (report.outcome, report.error) == (PurgeOutcome.PURGED, "")
    assert (topics.topic(name).fault, topics.topic(name).log_start) == ("", 9)


async def test_refusal_of_the_log_fails_the_purge(topics: Topics) -> None:
    name = topics.make(20, "r1")
    with topics.rig.db.write() as c:
        c.execute(topics.rig.db.t.wal_log.update().values(compacted=True))
    topics.flushed(name, "r1", 9)
    topics.wal.purger.preview([name])
    with pytest.raises(WorkflowFailureError) as failed:
        await (await topics.start(name)).result()

    assert "POLICY_VIOLATION" in str(failed.value.cause)
    assert "POLICY_VIOLATION" in topics.topic(name).fault


async def test_blocked_topic_is_no_failure_but_an_unknown_one_is(topics: Topics) -> None:
    silent = topics.make(20, "r1")
    topics.wal.maps.put(
        MapOrder(
            instance="shop",
            topic=silent,
            generation=2,
            regions=(RegionMapping(region="r1"), RegionMapping(region="r2")),
        )
    )
    report = await (await topics.start(silent)).result()
    with pytest.raises(WorkflowFailureError) as failed:
        await (await topics.start("wal-none")).result()

    assert report.outcome == PurgeOutcome.BLOCKED
    assert report.purged is not None
    assert "region r2" in report.purged.verdict.blocked[0].said
    assert "unknown topic wal-none" in str(failed.value.cause.cause)  # type: ignore[union-attr]


async def test_purge_signalled_while_preparing_does_not_purge(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [topics.make(200, "r1") for _ in range(2)]
    topics.wal.purger.preview(names)
    for name in names:
        topics.flushed(name, "r1", 149)
    both_entered, released = threading.Barrier(3, timeout=PATIENCE_SECONDS), threading.Event()
    original = PurgeRounds.preview

    def look(self: PurgeRounds, topic: str) -> Any:
        both_entered.wait()
        assert released.wait(PATIENCE_SECONDS)
        return original(self, topic)

    monkeypatch.setattr(PurgeRounds, "preview", look)
    cancelled, paused = [await topics.start(name) for name in names]
    await asyncio.to_thread(both_entered.wait)
    await cancelled.signal("cancel")
    await paused.signal("pause")
    released.set()
    await topics.until(paused, "PAUSED")
    await at_rest(paused)
    await paused.signal("cancel")
    reports = [await handle.result() for handle in (cancelled, paused)]

    assert [report.outcome for report in reports] == [PurgeOutcome.CANCELLED] * 2
    assert [(topics.topic(name).floor, topics.topic(name).log_start) for name in names] == [(None, 0)] * 2


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "FLUSHES_AT_ONCE", 1)


@pytest.mark.slow
async def test_purge_without_a_place_to_flush_goes_on(
    one_place: None, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits for flushes share few places: a purge that finds none for some time deletes what it may."""
    slow, other = topics.make(200, "r1"), topics.make(200, "r1")
    with flushing_node(Node(topics, [])) as url:
        for name in (slow, other):
            topics.flushed(name, "r1", 9, url)
        topics.wal.purger.preview([slow, other])
        occupying = await topics.start(slow)
        await until_started(occupying, "flush_regions")
        monkeypatch.setitem(options.WAL_FLUSH, "schedule_to_start_timeout", dt.timedelta(seconds=2))  # not an hour
        report = await (await topics.start(other)).result()
        await occupying.signal("purge_now")
        await occupying.result()

    assert (report.outcome, report.flushed.asked) == (PurgeOutcome.PURGED, 0)
    assert topics.topic(other).floor == 10


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
async def test_signalled_round_purges_nothing(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [topics.make(20, "r1") for _ in range(3)]
    topics.wal.purger.preview(names)
    for name in names:
        topics.flushed(name, "r1", 9)
    entered, released = review_that_waits(monkeypatch)
    cancelled = await topics.start_round()
    await happened(entered)
    await cancelled.signal("cancel")
    released.set()
    none = await cancelled.result()
    floors = [topics.topic(name).floor for name in names]

    entered.clear()
    released.clear()
    topics.rig.later(1_801)
    paused = await topics.start_round()
    await happened(entered)
    await paused.signal("pause")
    released.set()
    await until_doing(paused, "PAUSED", PurgeRoundProgress)
    await at_rest(paused)
    floors += [topics.topic(name).floor for name in names]
    await paused.signal("resume")
    counts = await paused.result()

    assert (none.purged, floors) == (0, [None] * 6)
    assert counts.purged == 3


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

    assert (progress.tries, progress.backoff_seconds, counts.purged) == (1, 600.0, 1)


@pytest.mark.slow
async def test_purge_of_a_topic_with_many_idle_regions_ends(topics: Topics) -> None:
    name = topics.make(20, *(f"greptime-public-monitoring-region-{n:030d}" for n in range(30_000)))

    report = await (await topics.start(name)).result()

    assert (report.outcome, topics.topic(name).log_start) == (PurgeOutcome.NOTHING, 0)
