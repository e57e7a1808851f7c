"""A Spark worker beside a control worker runs the heavy checks and heavy kinds of real workflows."""

import asyncio
from pathlib import Path

import pytest

import worker
from sexton.check.model import CheckReport, CheckRequest
from sexton.runtime.spark.session import Sessions
from sexton.runtime.temporal.client import pollers
from tests.integration.check.conftest import Owned, file_keys
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig, listing, put
from tests.workflows.conftest import Served, fill, heavy_from
from workflows import ids
from workflows.check import CheckInstance


@pytest.mark.timeout(300)
@pytest.mark.parametrize("clean_url", ["sqlite"], indirect=True)
async def test_a_heavy_check_is_compared_by_the_spark_worker(
    owned: Owned, sessions: Sessions, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    owned.write_live(*file_keys(30))
    owned.write_old("data/t9/gone_0.dat")
    (owned.root / file_keys(30)[4]).unlink()
    heavy = heavy_from(owned, 1)
    client, other = await temporal_server.connect(), await temporal_server.connect()
    control = await worker.build(client, heavy, owned.db)
    async with control, worker.build_spark(other, heavy, owned.db, sessions):
        report: CheckReport = await client.execute_workflow(
            CheckInstance.run,
            CheckRequest(instance="shop"),
            id=ids.check(DEPLOYMENT, f"shop-{tmp_path.name}"),
            task_queue=ids.control_queue(DEPLOYMENT),
        )
        at_work = await pollers(client, heavy, spark=True)

    assert at_work >= 1
    assert report.run.evidence is not None
    assert (report.whole, report.run.evidence.notes) == (True, ())
    assert report.run.evidence.listings[0].parts > 1  # cut, as only Spark's listing is
    assert owned.open_findings() == {"LOST": {file_keys(30)[4]}, "ORPHAN": {"data/t9/gone_0.dat"}}
    assert not list((tmp_path / "home" / "spark").glob("check-*"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("clean_url", ["sqlite"], indirect=True)
async def test_a_heavy_kind_is_deleted_by_the_spark_worker(
    rig: Rig, sessions: Sessions, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    shop = f"shop-{tmp_path.name}"
    rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, 40)
    fill(rig, root, shop, 3, kind="compacted")
    put(root, "dropped/live.dat")
    heavy = heavy_from(rig, 39)
    rig.policy = heavy.policy()
    client, other = await temporal_server.connect(), await temporal_server.connect()
    async with await worker.build(client, heavy, rig.db), worker.build_spark(other, heavy, rig.db, sessions):
        while not await pollers(client, heavy, spark=True):
            await asyncio.sleep(0.1)
        handle = await Served(rig, client).start(shop)
        report = await handle.result()
    ranges = {
        e.activity_task_scheduled_event_attributes.task_queue.name
        async for e in handle.fetch_history_events()
        if e.activity_task_scheduled_event_attributes.activity_type.name == "recycle_range"
    }

    assert (report.state, report.deleted, report.removed, report.waiting) == ("SUCCEEDED", 43, 43, 0)
    assert {k.kind: k.note for k in report.kinds} == {"compacted": "", "dropped": ""}
    assert ranges == {ids.control_queue(DEPLOYMENT), ids.spark_queue(DEPLOYMENT)}
    assert listing(root) == {"dropped/live.dat": 10}
