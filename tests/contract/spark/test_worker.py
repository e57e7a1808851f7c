"""A Spark worker beside a control worker: a heavy check of the real workflow is compared by it."""

from pathlib import Path

import pytest

import worker
from config.settings import Settings
from sexton.check.model import CheckReport, CheckRequest
from sexton.spark.session import Sessions
from sexton.temporal.client import pollers
from tests.contract.check.conftest import Owned, names
from tests.rig import DEPLOYMENT
from tests.servers.temporal import DevServer
from workflows import ids
from workflows.check import CheckInstance


@pytest.mark.timeout(300)
@pytest.mark.parametrize("clean_url", ["sqlite"], indirect=True)
async def test_a_heavy_check_is_compared_by_the_spark_worker(
    owned: Owned, sessions: Sessions, temporal_server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    owned.both(*names(30))
    owned.old("data/t9/gone_0.dat")
    (owned.root / names(30)[4]).unlink()
    usual = Settings(deployment=DEPLOYMENT, database_url=owned.url)
    heavy = usual.model_copy(update={"spark": usual.spark.model_copy(update={"spark_threshold_objects": 1})})
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
    assert owned.found() == {"LOST": {names(30)[4]}, "ORPHAN": {"data/t9/gone_0.dat"}}
    assert not list((tmp_path / "home" / "spark").glob("check-*"))
