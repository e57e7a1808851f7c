"""A round starts a purge for each due topic that has work, and a tick starts the round."""

import uuid

import pytest

from sexton.operators.controls.model import ALL, ControlKind
from sexton.recycle.rounds.model import DueInstances, TickRequest
from sexton.wal.messages import TopicCounts
from sexton.wal.model import BlockReason, Mode
from sexton.wal.orders import LeaderReport, MapOrder, RegionMapping, Stream
from tests.integration.wal.flushing_node import flushing_node
from tests.support.rig import DEPLOYMENT
from tests.workflows.topics import Node, Topics, rig, settings, topics
from workflows import ids

__all__ = ["rig", "settings", "topics"]  # fixtures


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


async def test_topic_with_much_to_delete_is_due_early(topics: Topics) -> None:
    name, small = topics.make(20, "r1"), topics.make(20, "r1")
    await topics.round()
    for topic_name in (name, small):
        topics.log.append(topic_name, [b"entry"] * 400)
        topics.wal.purger.preview([topic_name])
    topics.flushed(name, "r1", 350)
    topics.flushed(small, "r1", 200)
    due = topics.wal.schedule.any_due()
    counts = await topics.round(name)

    assert due
    assert (counts.topics, topics.topic(name).floor, topics.topic(small).floor) == (1, 351, None)


async def test_purges_flush_regions_and_name_unreachable_nodes(topics: Topics) -> None:
    lagging, stuck = topics.make(200, "r1"), topics.make(200, "r9")
    flush_node = Node(topics, ["r1"])
    with flushing_node(flush_node) as url:
        topics.flushed(lagging, "r1", 9, url)
        last_report = LeaderReport(topic=stuck, region="r9", epoch=0, streams=(Stream(flushed=19),))
        topics.wal.heartbeats.record_reports("shop", "n2", [last_report], "http://127.0.0.1:9")
        topics.wal.purger.preview([lagging, stuck])
        await topics.round()
        reports = [await topics.purge_of(topic).result() for topic in (lagging, stuck)]

    assert flush_node.asked == [(lagging, "r1")]
    assert [(r.flushed.asked, r.flushed.flushed, list(r.flushed.silent)) for r in reports] == [
        (1, 1, []),
        (0, 0, ["n2"]),
    ]
    assert (topics.topic(lagging).floor, topics.topic(stuck).floor) == (200, 20)


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


async def test_stop_of_everything_blocks_purges(topics: Topics) -> None:
    name = topics.make(20, "r1")
    topics.flushed(name, "r1", 9)
    topics.rig.controls.put(ControlKind.STOP, ALL, "a test", "the tester")
    counts = await topics.round()
    blocked = topics.topic(name)
    topics.rig.controls.remove(ControlKind.STOP, ALL)
    topics.rig.later(1_801)
    after = await topics.round(name)

    assert (counts.blocked, counts.started, blocked.floor, list(blocked.blocked)) == (1, 0, None, ["stopped"])
    assert (after.started, topics.topic(name).log_start) == (1, 9)


async def test_tick_starts_a_round_when_a_topic_is_due(topics: Topics) -> None:
    name = topics.make(20, "r1")
    topics.flushed(name, "r1", 9)
    client = topics.served.client
    due: DueInstances = await client.execute_workflow(
        ids.TICK,
        TickRequest(deployment=DEPLOYMENT),
        id=f"{ids.tick(DEPLOYMENT)}/{uuid.uuid4().hex[:8]}",
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=DueInstances,
    )
    await client.get_workflow_handle(ids.purge_wal_round(DEPLOYMENT)).result()
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
