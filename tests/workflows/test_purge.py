"""Purges of topics run on a real Temporal server, with the embedded log and a node that answers over HTTP."""

import threading
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import WorkflowAlreadyStartedError

from sexton.wal.messages import (
    PurgeOutcome,
)
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.port import LogFault
from sexton.wal.sql.embedded_log import EmbeddedLog
from tests.integration.wal.flushing_node import flushing_node
from tests.support.eventually import happened
from tests.workflows.topics import Node, Topics, rig, settings, topics
from workflows import options

__all__ = ["rig", "settings", "topics"]  # fixtures


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


async def test_purge_now_ends_the_wait_for_flushes(topics: Topics) -> None:
    name = topics.make(200, "r1")
    flush_node = Node(topics, [])
    with flushing_node(flush_node) as url:
        topics.flushed(name, "r1", 9, url)
        topics.wal.purger.preview([name])
        handle = await topics.start(name)
        await happened(flush_node.requested_flush)
        await handle.signal("purge_now")
        report = await handle.result()

    assert (report.outcome, report.error) == (PurgeOutcome.PURGED, "")
    assert topics.topic(name).log_start == 9


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
