"""A round purges due topics that have work in pages; some have a purge of their own. A tick starts the round."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from sexton.kernel.errors import BadInput
from sexton.wal.messages import PurgedPage, TopicCounts
from sexton.wal.model import BlockReason, Mode
from sexton.wal.policy import MapOrder, RegionMapping
from sexton.wal.port import LogFault
from sexton.wal.purger import PurgeRounds
from sexton.wal.sql.embedded_log import EmbeddedLog
from tests.support.rig import DEPLOYMENT
from tests.workflows.topics import LAG, Topics, settings, topics
from workflows import ids, options

__all__ = ["settings", "topics"]  # fixtures


async def test_round_purges_only_due_topics_with_work(topics: Topics) -> None:
    names = [topics.make(20, "r1") for _ in range(3)]
    idle = topics.make(20, "r1")
    for name in names:
        topics.flushed(name, "r1", 9)
    off = names.pop()
    topics.wal.store.disable(off)
    first = await topics.round()
    again = await topics.round()
    for name in names:
        topics.flushed(name, "r1", 14)
    early = await topics.round()
    topics.rig.later(1_801)
    late = await topics.round()

    assert (first.topics, first.purged, first.started) == (3, 2, 0)
    assert (again, early) == (TopicCounts(), TopicCounts())
    assert (late.topics, late.purged, late.started) == (3, 2, 0)
    assert [(topics.topic(name).floor, topics.topic(name).log_start) for name in names] == [(15, 14)] * 2
    assert [topics.topic(name).floor for name in (off, idle)] == [None, None]


async def test_topic_without_work_costs_no_purge(topics: Topics) -> None:
    """What a review finds is stored, though no purge runs: a block, and a topic that the log does not know."""
    blocked, done, faulty = topics.make(20, "r1"), topics.make(20, "r1"), "not-in-the-log"
    topics.wal.store.enable(faulty, Mode.DELETE, "shop")
    topics.wal.maps.put(MapOrder(instance="shop", topic=blocked, generation=2, regions=(RegionMapping(region="r2"),)))
    topics.flushed(done, "r1", 9)
    await topics.round()
    topics.rig.later(1_801)
    counts = await topics.round()

    assert (counts.topics, counts.purged, counts.started, counts.blocked, counts.faults) == (3, 0, 0, 1, 1)
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
    first = topics.served.client.get_workflow_handle(round_.id, run_id=round_.first_execution_run_id)
    history = await first.fetch_history()
    steps = [e for e in history.events if e.HasField("activity_task_scheduled_event_attributes")]

    assert (counts.topics, counts.purged, len(steps)) == (2_000, 40, 2)
    assert len(history.events) <= 50, len(history.events)
    assert {topics.topic(name).floor for name in working} == {1}


async def test_tick_starts_a_round_when_a_topic_is_due(topics: Topics) -> None:
    name = topics.make(20, "r1")
    topics.flushed(name, "r1", 9)
    due = await (await topics.served.tick()).result()
    await topics.served.client.get_workflow_handle(ids.purge_wal_round(DEPLOYMENT)).result()

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
    await topics.listed(name)
    topics.rig.later(1_801)
    counts = await topics.round()
    during, floor = topics.topic(name).ok_at, topics.topic(name).floor
    await paused.signal("resume")
    await paused.result()

    assert (counts.topics, counts.purged, counts.running, floor) == (2, 0, 1, None)
    assert enabled_at == during
    assert topics.topic(idle).ok_at != enabled_at != topics.topic(name).ok_at
    assert topics.topic(name).floor == 10


async def test_topics_that_must_flush_have_purges_of_their_own(topics: Topics) -> None:
    lagging, other = topics.make(2 * LAG, "r1"), topics.make(20, "r1")
    topics.wal.purger.preview([lagging, other])
    for name in (lagging, other):
        topics.flushed(name, "r1", 9)
    counts = await topics.round(lagging)

    assert (counts.purged, counts.started) == (1, 1)
    assert [topics.topic(name).floor for name in (lagging, other)] == [10, 10]


async def test_a_page_that_fails_delays_no_other(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its topics try again by themselves; or each round would end with the same page."""
    bad, other = topics.make(20, "r1", name="a"), topics.make(20, "r1", name="b")
    for name in (bad, other):
        topics.flushed(name, "r1", 9)
    purge_page = PurgeRounds.purge_page

    def refuse(rounds: PurgeRounds, names: Sequence[str], running: Collection[str]) -> PurgedPage:
        if bad in names:
            raise BadInput("not this page")
        return purge_page(rounds, names, running)

    monkeypatch.setattr(PurgeRounds, "purge_page", refuse)
    monkeypatch.setattr(options, "PAGE_TOPICS", 1)
    counts = await topics.round(bad)

    assert (counts.purged, counts.started, counts.reasons) == (1, 1, ("not this page",))
    assert [topics.topic(name).floor for name in (bad, other)] == [10, 10]


async def test_a_topic_with_a_fault_in_its_page_is_tried_again(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its page are purged, and its own purge waits until its log answers."""
    faulty, other = topics.make(20, "r1"), topics.make(20, "r1")
    for name in (faulty, other):
        topics.flushed(name, "r1", 9)
    delete_before, broken = EmbeddedLog.delete_before, [faulty]

    def delete(log: EmbeddedLog, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        answers = delete_before(log, {name: offset for name, offset in offsets.items() if name not in broken})
        refused = LogFault(faulty, "REQUEST_TIMED_OUT", "no answer", passes=True)
        return answers | ({faulty: refused} if offsets.keys() & broken else {})

    monkeypatch.setattr(EmbeddedLog, "delete_before", delete)
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 600.0)
    counts = await topics.round()
    await topics.until(topics.purge_of(faulty), ids.BACKING_OFF)
    during = topics.topic(faulty).log_start
    broken.clear()
    await topics.purge_of(faulty).signal("retry")
    await topics.purge_of(faulty).result()

    assert (counts.purged, counts.started) == (1, 1)
    assert (during, topics.topic(faulty).log_start, topics.topic(other).log_start) == (0, 9, 9)
