"""A Spark worker beside a control worker runs the heavy checks and heavy kinds of real workflows."""

from pathlib import Path

import pytest
from httpx import AsyncClient

from config.sections import MetricsSection
from sexton.check.model import CheckReport, CheckRequest
from sexton.interfaces.worker import control, spark
from sexton.runtime.embedded.ports import free_port
from sexton.runtime.spark.deleter import AT_ONCE
from sexton.runtime.spark.session import Sessions
from sexton.runtime.workers.store import WorkerStore
from tests.integration.check.conftest import Owned, file_keys
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig, listing, put
from tests.workflows.conftest import Served, fill, heavy_from
from workflows import ids
from workflows.check import CheckInstance

pytestmark = pytest.mark.slow


async def test_a_heavy_check_is_compared_by_the_spark_worker(
    owned: Owned, sessions: Sessions, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    owned.write_live(*file_keys(30))
    owned.write_old("data/t9/gone_0.dat")
    (owned.root / file_keys(30)[4]).unlink()
    heavy = heavy_from(owned, 20)  # nothing is known about the objects before the first listing
    client, other = await temporal_server.connect(), await temporal_server.connect()
    served = await control.build(client, heavy, owned.db)
    async with served, spark.spark_worker(other, heavy, owned.db, sessions):
        report: CheckReport = await client.execute_workflow(
            CheckInstance.run,
            CheckRequest(instance="shop"),
            id=ids.check(DEPLOYMENT, f"shop-{tmp_path.name}"),
            task_queue=ids.control_queue(DEPLOYMENT),
        )
        at_work = WorkerStore(owned.db).count_slots()

    assert at_work[0] == AT_ONCE
    assert WorkerStore(owned.db).count_slots() == (0, 0)  # it has removed its row
    assert report.run.evidence is not None
    assert (report.whole, report.run.evidence.notes) == (True, ("compared on Spark",))
    assert report.run.evidence.listings[0].parts > 1  # cut, as only Spark's listing is
    assert owned.open_findings() == {"LOST": {file_keys(30)[4]}, "ORPHAN": {"data/t9/gone_0.dat"}}
    assert not list((tmp_path / "home" / "spark").glob("check-*"))


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
    async with await control.build(client, heavy, rig.db), spark.spark_worker(other, heavy, rig.db, sessions):
        handle = await Served(rig, client).start(shop)
        report = await handle.result()
    ranges = {
        e.activity_task_scheduled_event_attributes.task_queue.name
        async for e in handle.fetch_history_events()
        if e.activity_task_scheduled_event_attributes.activity_type.name == "recycle_range"
    }

    assert (report.state, report.deleted, report.removed, report.waiting) == ("SUCCEEDED", 43, 43, 0)
    assert {k.kind: k.note for k in report.kinds} == {"compacted": "", "dropped": "deleted on Spark"}
    assert ranges == {ids.control_queue(DEPLOYMENT), ids.spark_queue(DEPLOYMENT)}
    assert listing(root) == {"dropped/live.dat": 10}


async def test_a_spark_worker_is_ready_and_looks_like_no_other(
    rig: Rig, sessions: Sessions, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    address = f"127.0.0.1:{free_port()}"
    settings = heavy_from(rig, 1).model_copy(update={"metrics": MetricsSection(listen=address)})

    async with spark.spark_worker(await temporal_server.connect(), settings, rig.db, sessions), AsyncClient() as http:
        ready = await http.get(f"http://{address}/readyz")
        metrics = (await http.get(f"http://{address}/metrics")).text

    assert ready.json() == {"status": "ok"}
    assert f'process_resident_memory_bytes{{deployment="{DEPLOYMENT}"}}' in metrics
    assert "sexton_up" not in metrics  # the alert that no control worker runs must fire
