"""A control worker deletes kinds of many objects if no Spark worker does, and reports it."""

import asyncio
import datetime as dt
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import RangeOrder
from sexton.recycle.rounds.recycler import Recycler
from sexton.runtime.spark.session import SparkFailed
from sexton.runtime.temporal.client import pollers, spark_queue
from tests.support.rig import DEPLOYMENT, Rig, listing
from tests.workflows.conftest import Served, fill, heavy_from
from workflows import ids
from workflows.options import BATCH_DELETE

THRESHOLD = 20


@pytest.fixture
def settings(rig: Rig) -> Settings:
    return heavy_from(rig, THRESHOLD)


def notes(report: RoundReport) -> dict[str, str]:
    return {k.kind: k.note for k in report.kinds}


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody have polled: Temporal remembers who did for longer than a test takes."""

    async def none(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr("sexton.runtime.temporal.client.pollers", none)


@pytest.mark.usefixtures("nobody")
async def test_round_does_not_wait_for_an_absent_spark_worker(served: Served, shop: str, tmp_path: Path) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, THRESHOLD + 1)
    fill(rig, root, shop, THRESHOLD, kind="compacted")

    report = await served.round(shop)

    assert (report.state, report.deleted, report.leases) == ("SUCCEEDED", 2 * THRESHOLD + 1, 1)
    assert notes(report) == {"compacted": "", "dropped": "no Spark worker polls: deleted by a control worker"}
    assert rig.rounds.reports.find_round(shop) == [report]


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch, shop: str) -> None:
    """Let it look as if a Spark worker had polled a moment ago; it is gone by now, or busy."""

    async def says(*_: object) -> str:
        return ids.spark_queue(f"nobody-{shop}")

    monkeypatch.setattr("worker.spark_queue", says)
    monkeypatch.setattr("workflows.options.SPARK_WAIT", dt.timedelta(seconds=1))


@pytest.mark.usefixtures("polled")
async def test_control_worker_deletes_if_no_spark_worker_starts(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[RangeOrder] = []
    recycle = Recycler.recycle

    def noting(self: Recycler, order: RangeOrder, *more: object) -> object:
        orders.append(order)
        return recycle(self, order, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Recycler, "recycle", noting)
    rig = served.rig.instance(shop)
    fill(rig, root := rig.local(tmp_path / "v", instance=shop), shop, THRESHOLD + 1)

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


async def test_control_worker_deletes_the_rest_after_a_spark_error(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        BATCH_DELETE, "retry_policy", RetryPolicy(initial_interval=dt.timedelta(milliseconds=10), maximum_attempts=3)
    )
    rig = served.rig.instance(shop)
    fill(rig, root := rig.local(tmp_path / "v", instance=shop), shop, THRESHOLD + 1)
    queue = ids.spark_queue(DEPLOYMENT)
    async with Worker(served.client, task_queue=queue, activities=[Broken().recycle_range]):
        for _ in range(300):
            if await polled_now(served, queue):
                break
            await asyncio.sleep(0.05)
        report = await served.round(shop)

    assert listing(root) == {}
    assert (report.state, report.leases) == ("SUCCEEDED", 1)
    assert notes(report) == {"dropped": "Spark: no executor has the password: a control worker deleted the rest"}


async def polled_now(served: Served, queue: str) -> bool:
    settings = Settings(deployment=DEPLOYMENT, database_url=served.rig.url)
    assert queue == ids.spark_queue(settings.require_deployment())
    return await pollers(served.client, settings, spark=True) > 0


async def test_round_waits_for_spark_if_the_pollers_are_unknown(
    served: Served, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **__: object) -> int:
        raise SextonError("Temporal does not say who polls: permission denied")

    monkeypatch.setattr("sexton.runtime.temporal.client.pollers", refused)

    assert await spark_queue(served.client, settings) == ids.spark_queue(DEPLOYMENT)
