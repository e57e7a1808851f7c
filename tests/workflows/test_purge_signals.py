"""A purge obeys signals that arrive at an inconvenient moment."""

import asyncio
import threading
from typing import Any

import pytest

from sexton.wal.messages import PurgeOutcome, PurgeRoundRequest, TopicPageReport
from sexton.wal.model import Mode
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.rounds import PurgeRounds
from sexton.wal.sql import schedule as turns_
from tests.support.rig import DEPLOYMENT
from tests.workflows.topics import Topics, rig, settings, topics
from workflows import ids

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


@pytest.mark.slow
async def test_paused_round_stays_paused_when_continued_as_new(
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns_, "PAGE_TOPICS", 1)
    monkeypatch.setattr(turns_, "MAX_PAGES", 1)
    names = [topics.make(20, "r1", name=f"t{n}") for n in range(4)]
    for name in names:
        topics.wal.purger.preview([name])
        topics.flushed(name, "r1", 9)
    entered, released = threading.Event(), threading.Event()
    original = PurgeRounds.page

    def page(self: PurgeRounds, topic_page: Any, heartbeat: Any) -> Any:
        entered.set()
        assert released.wait(20)
        return original(self, topic_page, lambda: None)

    monkeypatch.setattr(PurgeRounds, "page", page)
    handle = await topics.served.client.start_workflow(
        ids.PURGE_WAL_ROUND,
        PurgeRoundRequest(deployment=DEPLOYMENT),
        id=ids.purge_wal_round(DEPLOYMENT) + "/paused",
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=TopicPageReport,
    )
    await asyncio.to_thread(entered.wait, 20)
    await handle.signal("pause")
    await asyncio.sleep(1)
    released.set()
    await asyncio.sleep(5)
    floors = [topics.topic(name).floor for name in names]
    await topics.served.client.get_workflow_handle(handle.id).signal("cancel")
    await topics.served.client.get_workflow_handle(handle.id).result()

    assert floors[1:] == [None, None, None]


@pytest.mark.slow
async def test_pause_taken_back_at_once_skips_no_page(
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topics.make(20, "r1")
    topics.wal.purger.preview([name])
    topics.flushed(name, "r1", 9)
    entered = threading.Event()
    original = PurgeRounds.page
    first = [True]

    def page(self: PurgeRounds, topic_page: Any, heartbeat: Any) -> Any:
        while first:
            entered.set()
            threading.Event().wait(0.2)
            try:
                heartbeat()
            except BaseException:
                first.clear()
                raise
        return original(self, topic_page, heartbeat)

    monkeypatch.setattr(PurgeRounds, "page", page)
    handle = await topics.served.client.start_workflow(
        ids.PURGE_WAL_ROUND,
        PurgeRoundRequest(deployment=DEPLOYMENT),
        id=ids.purge_wal_round(DEPLOYMENT) + "/short",
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=TopicPageReport,
    )
    await asyncio.to_thread(entered.wait, 20)
    await handle.signal("pause")
    await handle.signal("resume")
    await asyncio.sleep(0.5)
    await handle.signal("pause")
    await asyncio.sleep(0.05)
    await handle.signal("resume")
    await asyncio.sleep(3)
    first.clear()  # if all signals arrived in one workflow task, the page was never cancelled
    report = await asyncio.wait_for(handle.result(), 20)

    assert (report.faults, topics.topic(name).floor) == (0, 10), report


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
