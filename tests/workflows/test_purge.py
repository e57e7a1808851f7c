"""Purges of topics in a real Temporal server, on the embedded log, with a node that answers over HTTP."""

import asyncio
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError

from config.settings import Settings
from sexton.operators.controls.model import ALL, ControlKind
from sexton.recycle.rounds.model import DueInstances, TickRequest
from sexton.wal.messages import (
    PurgeOutcome,
    PurgeProgress,
    PurgeReport,
    PurgeRequest,
    PurgeRoundRequest,
    TopicPageReport,
)
from sexton.wal.model import Mode, Topic
from sexton.wal.orders import LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.port import LogFault
from sexton.wal.sql.embedded_log import EmbeddedLog
from sexton.wal.wal import WalService
from tests.integration.wal.node import Asked, node
from tests.support.rig import DEPLOYMENT, Rig
from tests.workflows.conftest import PATIENCE_SECONDS, Served
from workflows import ids

LAG = 50


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(f"sqlite:///{tmp_path / 'sexton.db'}")


@pytest.fixture
def settings(rig: Rig) -> Settings:
    usual = Settings(deployment=DEPLOYMENT, database_url=rig.url)
    small = {"trigger_flush_entries": LAG, "flush_timeout_seconds": 60, "purge_trigger_entries": 300}
    return usual.model_copy(update={"wal": usual.wal.model_copy(update=small)})


class Topics:
    """Topics of one rig."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served, self.rig = served, served.rig
        self.log = EmbeddedLog(self.rig.db)
        self.wal = WalService(self.rig.db, settings.wal_settings(), self.rig.controls)

    def make(self, entries: int, *regions: str, name: str = "") -> str:
        """Make an enabled topic with regions that need all of it."""
        name = name or f"wal-{uuid.uuid4().hex[:8]}"
        self.log.create(name)
        mapped = tuple(RegionMapping(region=r, first=0) for r in regions)
        self.wal.maps.put(MapOrder(topic=name, generation=1, regions=mapped))
        self.log.append(name, [b"entry"] * entries)
        self.wal.store.enable(name, Mode.DELETE)
        return name

    def flushed(self, topic: str, region: str, last: int, url: str = "") -> None:
        report = LeaderReport(topic=topic, region=region, epoch=0, streams=(Stream(flushed=last),))
        self.wal.heartbeats.record_reports("n1", [report], url)

    def topic(self, name: str) -> Topic:
        return self.wal.store.topic(name)

    async def start(self, topic: str) -> WorkflowHandle[Any, PurgeReport]:
        return await self.served.client.start_workflow(
            ids.PURGE_WAL,
            PurgeRequest(topic=topic, requested_by="test"),
            id=ids.purge_wal(DEPLOYMENT, topic),
            task_queue=ids.control_queue(DEPLOYMENT),
            result_type=PurgeReport,
        )

    async def round(self) -> tuple[TopicPageReport, WorkflowHandle[Any, TopicPageReport]]:
        handle = await self.served.client.start_workflow(
            ids.PURGE_WAL_ROUND,
            PurgeRoundRequest(deployment=DEPLOYMENT),
            id=f"{ids.purge_wal_round(DEPLOYMENT)}/{uuid.uuid4().hex[:8]}",
            task_queue=ids.control_queue(DEPLOYMENT),
            result_type=TopicPageReport,
        )
        return await handle.result(), handle

    async def until(self, handle: WorkflowHandle[Any, PurgeReport], doing: str) -> PurgeProgress:
        for _ in range(int(PATIENCE_SECONDS / 0.05)):
            current = await handle.query("progress", result_type=PurgeProgress)
            if current.doing == doing:
                return current
            await asyncio.sleep(0.05)
        raise AssertionError(f"never {doing}; the last was {current}")


@pytest.fixture
def topics(served: Served, settings: Settings) -> Topics:
    return Topics(served, settings)


class Node:
    """A node; those of its regions that the test names flush all their entries."""

    def __init__(self, topics: Topics, flushed: Sequence[str]) -> None:
        self._topics, self._flushes, self.asked = topics, flushed, list[tuple[str, str]]()
        self.heard = threading.Event()

    def __call__(self, requested: Asked) -> int:
        self.asked += requested
        for topic, region in requested:
            if region in self._flushes:
                self._topics.flushed(topic, region, (self._topics.topic(topic).log_end or 0) - 1)
        self.heard.set()
        return 202


async def test_lagging_regions_flush_before_the_purge(topics: Topics) -> None:
    name = topics.make(200, "r1", "r2")
    flush_node = Node(topics, ["r1"])
    with node(flush_node) as url:
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
    with node(flush_node) as url:
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
    with node(flush_node) as url:
        topics.flushed(name, "r1", 9, url)
        topics.wal.purger.preview([name])
        handle = await topics.start(name)
        await asyncio.to_thread(flush_node.heard.wait, 20)
        await handle.signal("purge_now")
        report = await asyncio.wait_for(handle.result(), 20)

    assert (report.outcome, report.error) == (PurgeOutcome.PURGED, "")
    assert topics.topic(name).log_start == 9


async def test_paused_purge_deletes_nothing_until_resumed(topics: Topics) -> None:
    name, other = topics.make(200, "r1"), topics.make(200, "r1")
    flush_node = Node(topics, [])
    with node(flush_node) as url:
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
    topics.wal.purger.preview([name])
    handle = await topics.start(name)
    waiting = await topics.until(handle, "BACKING OFF")
    known = topics.topic(name)
    broken.clear()
    await handle.signal("retry")
    report = await asyncio.wait_for(handle.result(), 8)

    assert ("REQUEST_TIMED_OUT" in waiting.error, waiting.tries) == (True, 1)
    assert ("REQUEST_TIMED_OUT" in known.fault, known.floor, known.log_start) == (True, 10, 0)
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
        MapOrder(topic=silent, generation=2, regions=(RegionMapping(region="r1"), RegionMapping(region="r2")))
    )
    report = await (await topics.start(silent)).result()
    with pytest.raises(WorkflowFailureError) as failed:
        await (await topics.start("wal-none")).result()

    assert report.outcome == PurgeOutcome.BLOCKED
    assert report.purged is not None
    assert "region r2" in report.purged.verdict.blocked[0].said
    assert "unknown topic wal-none" in str(failed.value.cause.cause)  # type: ignore[union-attr]


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
    with node(flush_node) as url:
        topics.flushed(lagging, "r1", 9, url)
        last_report = LeaderReport(topic=stuck, region="r9", epoch=0, streams=(Stream(flushed=19),))
        topics.wal.heartbeats.record_reports("n2", [last_report], "http://127.0.0.1:9")
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
