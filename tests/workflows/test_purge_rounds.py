"""A round starts a purge for each due topic that has work, and a tick starts the round."""

import pytest

from sexton.wal.messages import TopicCounts
from sexton.wal.model import BlockReason, Mode
from sexton.wal.policy import MapOrder, RegionMapping
from tests.support.rig import DEPLOYMENT
from tests.workflows.topics import Topics, settings, topics
from workflows import ids

__all__ = ["settings", "topics"]  # fixtures


async def test_round_purges_only_due_topics_with_work(topics: Topics) -> None:
    names = [topics.make(20, "r1") for _ in range(3)]
    idle = topics.make(20, "r1")
    for name in names:
        topics.flushed(name, "r1", 9)
    off = names.pop()
    topics.wal.store.disable(off)
    first = await topics.round(*names)
    again = await topics.round()
    for name in names:
        topics.flushed(name, "r1", 14)
    early = await topics.round()
    topics.rig.later(1_801)
    late = await topics.round(*names)

    assert (first.topics, first.started) == (3, 2)
    assert (again, early) == (TopicCounts(), TopicCounts())
    assert (late.topics, late.started) == (3, 2)
    assert [(topics.topic(name).floor, topics.topic(name).log_start) for name in names] == [(15, 14)] * 2
    assert [topics.topic(name).floor for name in (off, idle)] == [None, None]


async def test_topic_without_work_costs_no_purge(topics: Topics) -> None:
    """What a review finds is stored, though no purge runs: a block, and a topic that the log does not know."""
    blocked, done, faulty = topics.make(20, "r1"), topics.make(20, "r1"), "not-in-the-log"
    topics.wal.store.enable(faulty, Mode.DELETE, "shop")
    topics.wal.maps.put(MapOrder(instance="shop", topic=blocked, generation=2, regions=(RegionMapping(region="r2"),)))
    topics.flushed(done, "r1", 9)
    await topics.round(done)
    topics.rig.later(1_801)
    counts = await topics.round()

    assert (counts.topics, counts.started, counts.blocked, counts.faults) == (3, 0, 1, 1)
    assert list(topics.topic(blocked).blocked) == [BlockReason.SILENT]
    assert "UNKNOWN_TOPIC_OR_PART" in topics.topic(faulty).fault
    assert topics.wal.schedule.due("", 10) == [faulty]  # its log may know it again at any time


@pytest.mark.slow
async def test_forty_of_two_thousand_topics_have_work(topics: Topics) -> None:
    names = [f"t{n:04}" for n in range(2_000)]
    working = [topics.make(2, "r1", name=name) for name in names[::50]]
    topics.copy(working[0], sorted({*names} - {*working}))
    topics.wal.purger.preview(working)
    for name in working:
        topics.flushed(name, "r1", 0)
    round_ = await topics.start_round()
    counts = await round_.result()
    for name in working:
        await topics.purge_of(name).result()
    history = await round_.fetch_history()
    reviews = [e for e in history.events if e.HasField("activity_task_scheduled_event_attributes")]

    assert (counts.topics, counts.started, len(reviews)) == (2_000, 40, 1)
    assert len(history.events) <= 200, len(history.events)
    assert {topics.topic(name).floor for name in working} == {1}


async def test_tick_starts_a_round_when_a_topic_is_due(topics: Topics) -> None:
    name = topics.make(20, "r1")
    topics.flushed(name, "r1", 9)
    due = await (await topics.served.tick()).result()
    await topics.served.client.get_workflow_handle(ids.purge_wal_round(DEPLOYMENT)).result()
    await topics.purge_of(name).result()

    assert due.topics
    assert topics.topic(name).floor == 10
    assert not topics.wal.schedule.any_due()


async def test_review_is_no_success_of_a_purge_that_is_paused(topics: Topics) -> None:
    """Rounds see such a topic at each tick; only its purge counts, or no alert would say that nothing is deleted."""
    name, idle = topics.make(20, "r1"), topics.make(20, "r1")
    await topics.round()
    topics.flushed(name, "r1", 9)
    enabled_at = topics.topic(name).ok_at
    paused = await topics.start(name, "pause")
    topics.rig.later(1_801)
    counts = await topics.round()
    during = topics.topic(name).ok_at
    await paused.signal("resume")
    await paused.result()

    assert (counts.topics, counts.running) == (2, 1)
    assert enabled_at == during
    assert topics.topic(idle).ok_at != enabled_at != topics.topic(name).ok_at
    assert topics.topic(name).floor == 10
