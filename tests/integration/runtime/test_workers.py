"""Workers report their role, build, settings and slots; each vault follows the settings of outgoing connections."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from config.live import LiveSettings
from config.settings import EngineSettings, load
from sexton.insight.status import overview
from sexton.interfaces.cli.doctor.stored import HERE, examine_settings, examine_workers
from sexton.kernel.trust import Trust
from sexton.operators.settings import SettingStore
from sexton.runtime import worker_rows
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.runtime.stores import DeploymentStores
from sexton.runtime.worker_rows import WorkerPresence, WorkerStore, own_settings, reporting
from sexton.storage.model import VaultSpec
from sexton.storage.port import VaultFault
from tests.servers.postgres import new_database
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, Rig

RETENTION = "recycle.retention_seconds"


@pytest.fixture
def workers(rig: Rig) -> WorkerStore:
    return WorkerStore(rig.db)


def worker(name: str, build: str = "1", **settings: str) -> WorkerPresence:
    return WorkerPresence(worker=name, role="control", build=build, metrics="a:1", settings=settings)


def spark(name: str, slots: int = 2, busy: int = 0) -> WorkerPresence:
    return WorkerPresence(worker=name, role="spark", slots=slots, busy=busy)


def older(rig: Rig, name: str, seconds: int) -> None:
    """Let a worker have reported so many seconds earlier."""
    t = rig.db.t.worker_presence
    with rig.db.write() as c:
        seen_at = c.execute(select(t.c.seen_at).where(t.c.worker == name)).scalar_one()
        c.execute(update(t).where(t.c.worker == name).values(seen_at=seen_at - 1000 * seconds))


def test_only_workers_that_reported_lately_are_present(rig: Rig, workers: WorkerStore) -> None:
    for name in ("gone", "silent", "here"):
        workers.report(worker(name))
    older(rig, "gone", 86_401)
    older(rig, "silent", 31)
    workers.report(worker("here", build="2"))
    rig.later(86_400)  # a trial's clock

    assert [(w.worker, w.build) for w in workers.present()] == [("here", "2")]
    assert rig.count("worker_presence") == 2
    workers.remove("here")
    assert list(workers.present()) == []


def test_status_knows_whether_a_worker_reaches_temporal(rig: Rig, workers: WorkerStore) -> None:
    rig.instance()
    workers.report(worker("a").model_copy(update={"reaches_temporal": False}))
    workers.report(spark("b"))
    alone = overview(rig.db, rig.all_stores.insight, rig.policy, 1).instances[0]
    workers.report(worker("c"))
    beside = overview(rig.db, rig.all_stores.insight, rig.policy, 1).instances[0]

    assert (alone.has_worker, alone.has_temporal, beside.has_temporal) == (True, False, True)


async def test_process_reports_its_own_settings(workers: WorkerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_rows, "REPORT_SECONDS", 0.01)
    monkeypatch.setenv("SEXTON_RECYCLE__RETENTION_SECONDS", "1001")

    async def present() -> Sequence[WorkerPresence]:
        return workers.present()

    async with reporting(workers, "control", load(), "127.0.0.1:9465"):
        [reported] = await eventually_async("it reports", present)

    assert (reported.role, reported.metrics, reported.settings[RETENTION]) == ("control", "127.0.0.1:9465", "1001")
    assert "deployment" not in reported.settings
    assert list(workers.present()) == []


def test_slots_are_summed_over_spark_workers_that_run(rig: Rig, workers: WorkerStore) -> None:
    workers.report(spark("killed", slots=8))
    rig.set_year_ahead("worker_presence", "seen_at")  # it reported while the clock was ahead, then it was killed
    workers.report(spark("silent", slots=8))
    older(rig, "silent", seconds=31)
    workers.report(worker("control"))
    for reported in (spark("a", busy=2), spark("b"), spark("b", busy=1)):
        workers.report(reported)
    rig.later(86_400)  # a trial's clock

    assert workers.count_slots() == (4, 1)


async def test_a_spark_worker_reports_until_it_ends(
    rig: Rig, workers: WorkerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_rows, "REPORT_SECONDS", 0.01)
    busy, refused = 0, 0
    report = workers.report

    def failing_once(reported: WorkerPresence) -> None:
        nonlocal refused
        if busy and not refused:
            refused = 1
            raise OperationalError("INSERT", {}, Exception("the database is away"))
        report(reported)

    monkeypatch.setattr(workers, "report", failing_once)

    async def has_a_busy_slot() -> bool:
        return workers.count_slots() == (2, 1)

    async def state() -> dict[str, int]:
        return {"busy": busy}

    async with reporting(workers, "spark", load(), "", 2, state):
        assert workers.count_slots() == (2, 2)
        busy = 1
        await eventually_async("it reports a busy slot", has_a_busy_slot)

    assert refused
    assert rig.count("worker_presence") == 0


def test_doctor_names_what_differs() -> None:
    own = own_settings(load())
    same, other = worker("a", **own), worker("b", build="2", **own | {RETENTION: "700"})

    found = {f.about: f for f in examine_workers([same, other], own, frozenset())}
    by_row = {f.about for f in examine_workers([same, other], own, frozenset({RETENTION}))}

    assert found["workers"].detail == "a (control 1, metrics at a:1); b (control 2, metrics at a:1)"
    assert found["worker settings"].detail == f"{RETENTION}: 259200 in a and {HERE}, 700 in b"
    assert found["builds"].state == "WARN"
    assert by_row == {"workers", "builds"}
    assert list(examine_workers([], own, frozenset())) == []


def test_doctor_names_rows_that_are_ignored(rig: Rig) -> None:
    live, rows = LiveSettings(load(), SettingStore(rig.db).all, max_age_seconds=0), SettingStore(rig.db)
    nothing = list(examine_settings(live))
    rows.put(RETENTION, "7000")
    [used] = examine_settings(live)
    rows.put(RETENTION, "7")
    [ignored] = examine_settings(live)

    assert nothing == []
    assert (used.state, RETENTION in used.detail) == ("OK", True)
    assert ignored.state == "WARN"
    assert f"ignored: {RETENTION} = 7 (database, set by " in ignored.detail


FAR = "http://s3.invalid:9000"


def _refusals(rig: Rig, trust: Trust) -> list[bool]:
    """Return whether each place that opens vaults refuses clear text; otherwise the vault fails for want of a login."""
    settings = EngineSettings(deployment=DEPLOYMENT, endpoint_url=FAR, audit_url="s3://b/log", trust=trust)
    stores = DeploymentStores(rig.db, settings)
    target = ConnectionTarget(deployment=DEPLOYMENT, database_url=rig.url, endpoint_url=FAR, trust=trust)
    spec = stores.registry.vault("shop", "far")
    openings = [
        lambda: stores.vaults.get("shop", "far"),
        lambda: stores.vaults_of_any_round.get("shop", "far"),
        lambda: stores.audit_locations(stores.vaults).to_write("shop", "far").read_marker(),
        lambda: target.vaults([spec]).get("shop", "far"),
        lambda: target.stores().vaults.get("shop", "far"),
    ]
    refusals = list[bool]()
    for opening in openings:
        with pytest.raises(VaultFault) as refused:
            opening()
        refusals.append("is not encrypted" in str(refused.value))
    return refusals


@pytest.mark.slow
def test_every_vault_is_opened_as_the_settings_permit(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    vault = VaultSpec(instance="shop", name="far", kind="s3", location="b", deployment=DEPLOYMENT, uuid="0" * 32)
    rig.operators.registry.insert_vault(vault, FAR)

    refused, permitted = _refusals(rig, Trust()), _refusals(rig, Trust(insecure_http=True))
    rig.db.close()

    assert (refused, permitted) == ([True] * 5, [False] * 5)
