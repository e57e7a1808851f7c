"""Waits for flushes share few places: a purge that finds none for some time deletes what it may, without flushes."""

import datetime as dt

import pytest

from sexton.wal.messages import PurgeOutcome
from tests.integration.wal.flushing_node import flushing_node
from tests.workflows.conftest import until_started
from tests.workflows.topics import Node, Topics, rig, settings, topics
from workflows import options

__all__ = ["rig", "settings", "topics"]  # fixtures


@pytest.fixture(autouse=True)
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One place for flushes."""
    monkeypatch.setattr(options, "FLUSHES_AT_ONCE", 1)


@pytest.mark.slow
async def test_purge_without_a_place_to_flush_goes_on(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
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
