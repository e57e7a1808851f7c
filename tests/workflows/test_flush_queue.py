"""Waits for flushes share few places: a purge that finds none for some time deletes what it may, without flushes."""

import asyncio

import pytest

from sexton.wal.messages import PurgeOutcome
from tests.integration.wal.flushing_node import flushing_node
from tests.workflows.topics import Node, Topics, rig, settings, topics
from workflows import options

__all__ = ["rig", "settings", "topics"]  # fixtures


@pytest.fixture(autouse=True)
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One place, for which a purge waits two seconds instead of an hour."""
    monkeypatch.setattr(options, "FLUSHES_AT_ONCE", 1)
    patience = options.WAL_FLUSH["schedule_to_start_timeout"] / 1_800
    monkeypatch.setitem(options.WAL_FLUSH, "schedule_to_start_timeout", patience)


async def test_purge_without_a_place_to_flush_goes_on(topics: Topics) -> None:
    slow, other = topics.make(200, "r1"), topics.make(200, "r1")
    with flushing_node(Node(topics, [])) as url:
        for name in (slow, other):
            topics.flushed(name, "r1", 9, url)
        topics.wal.purger.preview([slow, other])
        occupying = await topics.start(slow)
        await topics.until(occupying, "FLUSHING")
        await asyncio.sleep(1)
        waiting = await topics.start(other)
        report = await asyncio.wait_for(waiting.result(), 20)
        await occupying.signal("purge_now")
        await occupying.result()

    assert (report.outcome, report.flushed.asked) == (PurgeOutcome.PURGED, 0)
    assert topics.topic(other).floor == 10
