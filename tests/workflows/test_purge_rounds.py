"""A round purges the topics that are due, and a tick starts it."""

import uuid

from sexton.operators.controls.model import ALL, ControlKind
from sexton.recycle.rounds.model import DueInstances, TickRequest
from sexton.wal.messages import (
    TopicPageReport,
)
from sexton.wal.orders import LeaderReport, Stream
from tests.integration.wal.flushing_node import flushing_node
from tests.support.rig import DEPLOYMENT
from tests.workflows.topics import Node, Topics, rig, settings, topics
from workflows import ids

__all__ = ["rig", "settings", "topics"]  # fixtures


async def test_round_purges_only_the_due_topics(topics: Topics) -> None:
    names = [topics.make(20, "r1") for _ in range(3)]
    for name in names:
        topics.flushed(name, "r1", 9)
    off = names.pop()
    topics.wal.store.disable(off)
    first, _ = await topics.round()
    again, _ = await topics.round()
    for name in names:
        topics.flushed(name, "r1", 14)
    early, _ = await topics.round()
    topics.rig.later(1_801)
    late, _ = await topics.round()

    assert (first.topics, first.raised, first.freed) == (2, 2, 18)
    assert (again, early) == (TopicPageReport(), TopicPageReport())
    assert (late.topics, late.raised, late.freed) == (2, 2, 10)
    assert topics.topic(off).floor is None


async def test_topic_with_much_to_delete_is_due_early(topics: Topics) -> None:
    name, small = topics.make(20, "r1"), topics.make(20, "r1")
    await topics.round()
    for topic_name in (name, small):
        topics.log.append(topic_name, [b"entry"] * 400)
        topics.wal.purger.preview([topic_name])
    topics.flushed(name, "r1", 350)
    topics.flushed(small, "r1", 200)
    due = topics.wal.schedule.any_due()
    report, _ = await topics.round()

    assert due
    assert (report.topics, topics.topic(name).floor, topics.topic(small).floor) == (1, 351, None)


async def test_round_flushes_regions_and_names_unreachable_nodes(topics: Topics) -> None:
    lagging, stuck = topics.make(200, "r1"), topics.make(200, "r9")
    flush_node = Node(topics, ["r1"])
    with flushing_node(flush_node) as url:
        topics.flushed(lagging, "r1", 9, url)
        last_report = LeaderReport(topic=stuck, region="r9", epoch=0, streams=(Stream(flushed=19),))
        topics.wal.heartbeats.record_reports("shop", "n2", [last_report], "http://127.0.0.1:9")
        topics.wal.purger.preview([lagging, stuck])
        report, _ = await topics.round()

    assert flush_node.asked == [(lagging, "r1")]
    assert (report.asked, report.flushed) == (1, 1)
    assert [s.partition(":")[0] for s in report.said] == ["n2"]
    assert (topics.topic(lagging).floor, topics.topic(stuck).floor) == (200, 20)


async def test_stop_of_everything_blocks_purges(topics: Topics) -> None:
    name = topics.make(20, "r1")
    topics.flushed(name, "r1", 9)
    topics.rig.controls.put(ControlKind.STOP, ALL, "a test", "the tester")
    report, _ = await topics.round()
    blocked = topics.topic(name)
    topics.rig.controls.remove(ControlKind.STOP, ALL)
    topics.rig.later(1_801)
    after, _ = await topics.round()

    assert (report.blocked, report.freed, blocked.floor, list(blocked.blocked)) == (1, 0, None, ["stopped"])
    assert (after.raised, topics.topic(name).log_start) == (1, 9)


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

    assert due.topics
    assert topics.topic(name).floor == 10
    assert not topics.wal.schedule.any_due()
