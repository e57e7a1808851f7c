"""A control worker deletes kinds of many objects if no Spark worker does, and reports it."""

import datetime as dt
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities import RecycleActivities
from config.settings import Settings
from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline import ranges
from sexton.recycle.pipeline.model import RangeOrder
from sexton.recycle.planning import policy as planning
from sexton.recycle.rounds.recycler import Recycler
from sexton.runtime.engine import Engine
from sexton.runtime.spark.session import SparkFailed
from sexton.runtime.worker_rows import WorkerPresence
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DEPLOYMENT, Rig, listing, put
from tests.workflows.conftest import Served, fill, heavy_from, limit_ranges
from workflows import ids
from workflows.options import BATCH_DELETE

THRESHOLD = 20


@pytest.fixture
def settings(rig: Rig) -> Settings:
    return heavy_from(rig, THRESHOLD)


@pytest.fixture(autouse=True)
def _reports_count_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine the Spark worker's only report must not be too old before the round asks for it."""
    monkeypatch.setattr("sexton.insight.progress.ABSENT_MS", 3_600_000)


def notes(report: RoundReport) -> dict[str, str]:
    return {k.kind: k.note for k in report.kinds}


async def test_round_does_not_wait_for_absent_or_busy_spark_workers(served: Served, shop: str, tmp_path: Path) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, THRESHOLD + 1)
    fill(rig, root, shop, THRESHOLD, kind="compacted")

    report = await served.round(shop)
    beside = served.filled(f"{shop}-2", tmp_path / "2", THRESHOLD + 1)
    rig.all_stores.workers.report(WorkerPresence(worker="one", role="spark", slots=2, busy=2))
    busy = await served.round(f"{shop}-2")

    assert (report.state, report.deleted, report.leases) == ("SUCCEEDED", 2 * THRESHOLD + 1, 1)
    by_control_worker = "no Spark worker is free: deleted by a control worker"
    assert notes(report) == {"compacted": "", "dropped": by_control_worker}
    assert rig.rounds.reports.find_round(shop) == [report]
    assert (notes(busy), listing(beside)) == ({"dropped": by_control_worker}, {})


@pytest.mark.slow
async def test_control_worker_deletes_if_no_spark_worker_starts(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[RangeOrder] = []
    recycle = Recycler.recycle

    def noting(self: Recycler, order: RangeOrder, *more: object) -> object:
        orders.append(order)
        return recycle(self, order, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Recycler, "recycle", noting)
    monkeypatch.setattr("workflows.options.SPARK_WAIT", dt.timedelta(seconds=1))
    rig, root = served.rig, served.filled(shop, tmp_path, THRESHOLD + 1)
    rig.all_stores.workers.report(WorkerPresence(worker="gone", role="spark", slots=2, busy=0))  # it died a moment ago

    report = await served.round(shop)

    assert listing(root) == {}
    assert notes(report) == {
        "dropped": "no Spark worker took it, or the rest of one that died, within 1 s: a control worker did"
    }
    assert [order.attempts > 5 for order in orders] == [True]  # newer than any attempt of a Spark worker's


class Broken:
    """A Spark worker whose Spark does not work."""

    @activity.defn(name="recycle_range")
    async def recycle_range(self, _: RangeOrder) -> None:
        raise ApplicationError("Spark: no executor has the password", type=SparkFailed.__name__)


@pytest.mark.slow
async def test_control_worker_deletes_the_rest_after_a_spark_error(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        BATCH_DELETE, "retry_policy", RetryPolicy(initial_interval=dt.timedelta(milliseconds=10), maximum_attempts=3)
    )
    rig, root = served.rig, served.filled(shop, tmp_path, THRESHOLD + 1)
    queue = ids.spark_queue(DEPLOYMENT)
    rig.all_stores.workers.report(WorkerPresence(worker="broken", role="spark", slots=2, busy=0))
    async with Worker(served.client, task_queue=queue, activities=[Broken().recycle_range]):
        report = await served.round(shop)

    assert listing(root) == {}
    assert (report.state, report.leases) == ("SUCCEEDED", 1)
    assert notes(report) == {"dropped": "Spark: no executor has the password: a control worker deleted the rest"}


@asynccontextmanager
async def spark_worker(served: Served, settings: Settings) -> AsyncIterator[None]:
    """Serve what a Spark worker serves, with threads in place of Spark."""
    rig = served.rig
    engine = Engine(rig.db, settings.engine_settings())
    recycle = RecycleActivities(engine.rounds, engine.recycler(engine.deleter), settings.policy())
    rig.all_stores.workers.report(WorkerPresence(worker="one", role="spark", slots=4, busy=0))
    with ThreadPoolExecutor(4) as threads:
        async with Worker(
            served.client,
            task_queue=ids.spark_queue(DEPLOYMENT),
            activities=[recycle.recycle_range, recycle.adopt_claimed],
            activity_executor=threads,
        ):
            yield


async def test_prefix_that_lists_many_objects_is_left_to_spark(
    served: Served, shop: str, settings: Settings, tmp_path: Path
) -> None:
    """The plan assumes 10 objects. In a second pass as many are listed again."""
    rig, shops = served.rig, (f"{shop}-1", f"{shop}-2")
    keys = [f"data/{n}.dat" for n in range(THRESHOLD + 1)]
    for instance in shops:
        put_all(rig.instance(instance).local(tmp_path / instance, instance=instance), keys)
        rig.mark("dropped", NewMark(id="t", vault="disk", prefix="data/"), instance=instance)
    rig.later(10_801)

    reports = [await served.round(shops[0])]
    async with spark_worker(served, settings):
        reports.append(await served.round(shops[1]))
        put_all(tmp_path / shops[1], keys)
        rig.later(3_601)
        second = await served.round(shops[1])

    assert [report.deleted for report in (*reports, second)] == [THRESHOLD + 1] * 3
    by_control_worker = "no Spark worker is free: deleted by a control worker"
    assert [notes(report)["dropped"] for report in reports] == [by_control_worker, "deleted on Spark"]
    assert [report.adoption_note for report in (*reports, second)] == ["", "", "deleted on Spark"]


def put_all(root: Path, keys: Sequence[str]) -> None:
    for key in keys:
        put(root, key)


async def test_kind_that_deleted_many_objects_goes_on_on_spark(
    served: Served, shop: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No range has many, all together have: four prefixes, for each of which the plan assumes a few objects."""
    limit_ranges(monkeypatch, 1)
    monkeypatch.setattr("sexton.recycle.planning.sql.measure.ASSUMED_OBJECTS", 1)
    rig, root = served.rig, served.rig.instance(shop).local(tmp_path / "v", instance=shop)
    for n in range(4):
        put_all(root, [f"data/{n}/{i}.dat" for i in range(THRESHOLD - 1)])
        rig.mark("dropped", NewMark(id=f"t{n}", vault="disk", prefix=f"data/{n}/"), instance=shop)
    rig.later(10_801)

    async with spark_worker(served, settings):
        handle = await served.start(shop)
        report = await handle.result()

    assert (report.deleted, notes(report)) == (4 * (THRESHOLD - 1), {"dropped": "deleted on Spark"})
    queues = (ids.control_queue(DEPLOYMENT), ids.spark_queue(DEPLOYMENT))
    assert await tried_on(handle, "recycle_range") == [queues[0]] * 2 + [queues[1]] * 3  # the last finds none


async def test_many_earlier_claims_are_left_to_spark(
    served: Served, shop: str, settings: Settings, tmp_path: Path
) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, THRESHOLD + 1)
    with installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.round(shop)
    rig.later(3_600)  # its lease has ended

    async with spark_worker(served, settings):
        handle = await served.start(shop)
        report = await handle.result()

    assert await tried_on(handle, "adopt_claimed") == [ids.control_queue(DEPLOYMENT), ids.spark_queue(DEPLOYMENT)]
    assert (listing(root), report.adoption_note) == ({}, "deleted on Spark")


async def tried_on(handle: WorkflowHandle[Any, Any], activity_name: str) -> list[str]:
    """Return the task queues of an activity of a workflow, in the order in which it was scheduled."""
    return [
        event.activity_task_scheduled_event_attributes.task_queue.name
        async for event in handle.fetch_history_events()
        if event.activity_task_scheduled_event_attributes.activity_type.name == activity_name
    ]


MARKS, EVENTS = 1_000, 500
"""Each mark stands for 10,000 objects: a range, a shard and the round have as many as with 10,000,000 objects."""


@pytest.fixture
def scaled_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = 10_000_000 // MARKS
    monkeypatch.setattr(ranges, "RANGE_OBJECTS", ranges.RANGE_OBJECTS // scale)
    monkeypatch.setattr(planning, "SHARD_OBJECTS", planning.SHARD_OBJECTS // scale)
    for name in ("GROUP_FILES", "CHUNK_MARKS"):
        monkeypatch.setattr(ranges, name, 5)


@pytest.mark.slow
@pytest.mark.usefixtures("scaled_ranges")
async def test_ten_million_objects_need_few_events(
    served: Served, shop: str, settings: Settings, tmp_path: Path
) -> None:
    served.filled(shop, tmp_path, MARKS)
    async with spark_worker(served, settings):
        handle = await served.start(shop)
        report = await handle.result()
    history = await handle.fetch_history()

    print(f"{len(history.events)} events")
    assert (report.state, report.deleted, notes(report)) == ("SUCCEEDED", MARKS, {"dropped": "deleted on Spark"})
    assert MARKS // ranges.RANGE_OBJECTS * 6 < len(history.events) <= EVENTS
