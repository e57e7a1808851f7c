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
from sexton.runtime.worker_rows import WorkerStore
from tests.integration.check.conftest import Owned, file_keys
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, listing, put
from tests.workflows.conftest import Served, fill, heavy_from
from workflows import ids
from workflows.check import CheckInstance

pytestmark = pytest.mark.slow


async def test_a_heavy_check_and_a_heavy_kind_run_on_the_spark_worker(
    owned: Owned, sessions: Sessions, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    owned.write_live(*file_keys(30))
    owned.write_old("data/t9/gone_0.dat")
    (owned.root / file_keys(30)[4]).unlink()
    shop = f"shop-{tmp_path.name}"
    owned.instance(shop)
    owned.registry.set_live_view(shop, "none")
    root = owned.local(tmp_path / "v", instance=shop)
    fill(owned, root, shop, 40)
    fill(owned, root, shop, 3, kind="compacted")
    put(root, "dropped/live.dat")
    heavy = heavy_from(owned, 20)  # nothing is known about the objects before the first listing
    address = f"127.0.0.1:{free_port()}"
    beside = heavy.model_copy(update={"metrics": MetricsSection(listen=address)})
    owned.policy = heavy.policy()
    client, other = await temporal_server.connect(), await temporal_server.connect()
    served = await control.build(client, heavy, owned.db)
    async with served, spark.spark_worker(other, beside, owned.db, sessions), AsyncClient() as http:
        checked: CheckReport = await client.execute_workflow(
            CheckInstance.run,
            CheckRequest(instance="shop"),
            id=ids.check(DEPLOYMENT, f"shop-{tmp_path.name}"),
            task_queue=ids.control_queue(DEPLOYMENT),
        )
        at_work = WorkerStore(owned.db).count_slots()
        handle = await Served(owned, client).start(shop)
        report = await handle.result()
        ready = await http.get(f"http://{address}/readyz")
        metrics = (await http.get(f"http://{address}/metrics")).text
    ranges = {
        e.activity_task_scheduled_event_attributes.task_queue.name
        async for e in handle.fetch_history_events()
        if e.activity_task_scheduled_event_attributes.activity_type.name == "recycle_range"
    }

    assert at_work[0] == AT_ONCE
    assert WorkerStore(owned.db).count_slots() == (0, 0)  # it has removed its row
    assert checked.run.evidence is not None
    assert (checked.whole, checked.run.evidence.notes) == (True, ("compared on Spark",))
    assert checked.run.evidence.listings[0].parts > 1  # cut, as only Spark's listing is
    assert owned.open_findings() == {"LOST": {file_keys(30)[4]}, "ORPHAN": {"data/t9/gone_0.dat"}}
    assert not list((tmp_path / "home" / "spark").glob("check-*"))
    assert (report.state, report.deleted, report.removed, report.waiting) == ("SUCCEEDED", 43, 43, 0)
    assert {k.kind: k.note for k in report.kinds} == {"compacted": "", "dropped": "deleted on Spark"}
    assert ranges == {ids.control_queue(DEPLOYMENT), ids.spark_queue(DEPLOYMENT)}
    assert listing(root) == {"dropped/live.dat": 10}
    assert ready.json() == {"status": "ok"}
    assert f'process_resident_memory_bytes{{deployment="{DEPLOYMENT}"}}' in metrics
    assert "sexton_up" not in metrics  # the alert that no control worker runs must fire
