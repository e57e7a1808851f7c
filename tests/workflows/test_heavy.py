"""Kinds of many objects: where no Spark worker takes them, a control worker does, and the report says so."""

import datetime as dt
from pathlib import Path

import pytest

from config.settings import Settings
from sexton.recycle.model import RangeOrder, RoundReport
from sexton.recycle.steps import Recycler
from tests.rig import DEPLOYMENT, Rig, listing
from tests.workflows.conftest import Served, fill
from workflows import ids

THRESHOLD = 20


@pytest.fixture
def settings(rig: Rig) -> Settings:
    usual = Settings(deployment=DEPLOYMENT, database_url=rig.url)
    return usual.model_copy(update={"spark": usual.spark.model_copy(update={"spark_threshold_objects": THRESHOLD})})


def notes(report: RoundReport) -> dict[str, str]:
    return {k.kind: k.note for k in report.kinds}


async def test_without_a_spark_worker_nobody_waits_for_one(served: Served, shop: str, tmp_path: Path) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, THRESHOLD + 1)
    fill(rig, root, shop, THRESHOLD, kind="compacted")

    report = await served.round(shop)

    assert (report.state, report.deleted, report.leases) == ("SUCCEEDED", 2 * THRESHOLD + 1, 1)
    assert notes(report) == {"compacted": "", "dropped": "no Spark worker polls: deleted by a control worker"}
    assert rig.rounds.find_round(shop) == [report]


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch, shop: str) -> None:
    """Let it look as if a Spark worker had polled a moment ago; it is gone by now, or busy."""

    async def says(*_: object) -> str:
        return ids.spark_queue(f"nobody-{shop}")

    monkeypatch.setattr("worker.spark_queue", says)
    monkeypatch.setattr("workflows.options.SPARK_WAIT", dt.timedelta(seconds=1))


@pytest.mark.usefixtures("polled")
async def test_what_no_spark_worker_takes_in_time_is_done_by_a_control_worker(
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
    assert notes(report) == {"dropped": "no Spark worker took it within 1 s: deleted by a control worker"}
    assert [order.attempts > 5 for order in orders] == [True]  # newer than any attempt of a Spark worker's
