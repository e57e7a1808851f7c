"""`sexton blockers` asks Temporal for what waits; `after-restore` refuses to continue while a worker polls."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
import typer
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest, UnpauseActivityRequest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from config.settings import Settings
from sexton.check.model import CheckRequest
from sexton.contract import NewMark
from sexton.interfaces.cli.commands import after_restore
from sexton.interfaces.cli.doctor.surroundings import examine_temporal
from sexton.marks.kept import Blocker
from sexton.runtime.blockers.listing import list_blockers
from sexton.runtime.deployment import Deployment
from sexton.runtime.temporal import schedules, search_attributes
from sexton.runtime.temporal.client import pollers
from sexton.runtime.temporal.waiting import failing, temporal_blockers
from sexton.wal.messages import PurgeRequest
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, Rig, put
from tests.workflows.conftest import Served, changed
from workflows import ids
from workflows.search_attributes import Capability, at_start


def service(rig: Rig, settings: Settings, address: str, deployment: str) -> Deployment:
    at = changed(settings, temporal={"address": address})
    return Deployment(at.model_copy(update={"deployment": deployment}), rig.db)


@pytest.fixture
def restored(served: Served, settings: Settings, temporal_server: DevServer) -> Deployment:
    return service(served.rig, settings, temporal_server.address, DEPLOYMENT)


async def test_polling_workers_are_refused(restored: Deployment, served: Served) -> None:
    await eventually_async("Temporal lists the worker", lambda: pollers(served.client, restored.settings))
    with pytest.raises(after_restore.WorkersRun, match="stop every worker"):
        await asyncio.to_thread(after_restore._require_no_worker, restored, True)


async def test_checks_say_what_is_missing(
    restored: Deployment, served: Served, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.rig.instance(shop)
    served.rig.local(tmp_path / "v", instance=shop)

    with pytest.raises(typer.Exit) as ended:
        await asyncio.to_thread(after_restore._check_all, restored)

    printed = capsys.readouterr().out
    assert ended.value.exit_code == after_restore.INCOMPLETE
    assert f"check 1 of {shop}: PARTIAL" in printed
    assert "  missing: " in printed
    assert "then: sexton start --all" in printed


async def find(at: Deployment) -> dict[str, Blocker]:
    """Return the rows by what blocks; on a busy machine Temporal may need several attempts to answer in time."""
    found = await eventually_async(
        "Temporal answers in time",
        lambda: asyncio.to_thread(temporal_blockers, at),
        lambda found: found is not None,
    )
    return {row.held_by: row for row in found or ()}


async def test_schedule_and_workers_are_named(rig: Rig, settings: Settings, temporal_server: DevServer) -> None:
    deployment = f"test-{uuid.uuid4().hex[:8]}"
    at = service(rig, settings, temporal_server.address, deployment)
    client = await temporal_server.connect()

    before, texts = await find(at), [await schedules.explain_idle(client, deployment)]
    await schedules.apply(client, at.settings)
    applied, texts = await find(at), [*texts, await schedules.explain_idle(client, deployment)]
    await schedules.pause(client, deployment, "migrating the database (anna)")
    paused, texts = await find(at), [*texts, await schedules.explain_idle(client, deployment)]

    rig.instance()
    listed = await eventually_async(
        "Temporal answers in time",
        lambda: asyncio.to_thread(list_blockers, at, None),
        lambda listed: not listed.temporal_away,
    )

    assert [row.why for row in listed.rows if row.held_by == "no worker"] == [before["no worker"].why]
    assert before["no schedule"].way_out == "sexton schedules apply"
    assert before["no worker"].way_out == "sexton worker run"
    assert applied.keys() == {"no worker"}
    assert paused["paused schedule"].why == "migrating the database (anna)"
    assert paused["paused schedule"].way_out == "sexton schedules resume"
    assert texts[0].startswith("no schedule was applied")
    assert texts[1] == ""
    assert "paused (migrating the database (anna))" in texts[2]


async def test_a_schedule_that_temporal_lost_is_made_again(
    rig: Rig, settings: Settings, temporal_server: DevServer
) -> None:
    deployment = f"test-{uuid.uuid4().hex[:8]}"
    at = service(rig, settings, temporal_server.address, deployment)
    client = await temporal_server.connect()

    await schedules.keep(client, rig.db, at.live)
    never = await schedules.describe(client, deployment)
    await schedules.apply(client, at.settings)
    await schedules.keep(client, rig.db, at.live)
    await schedules.handle(client, deployment).delete()
    await schedules.keep(client, rig.db, at.live)
    again = await schedules.describe(client, deployment)
    await schedules.pause(client, deployment, "migrating (anna)")
    await schedules.keep(client, rig.db, at.live)
    await schedules.handle(client, deployment).delete()
    await schedules.keep(client, rig.db, at.live)
    paused = await schedules.describe(client, deployment)

    assert (never, [s.paused for s in again]) == ([], [False])
    assert [(s.paused, s.note) for s in paused] == [(True, "migrating (anna)")]


async def test_an_overdue_round_is_named_while_temporal_is_away(rig: Rig, settings: Settings) -> None:
    at = service(rig.instance(), settings, "127.0.0.1:1", DEPLOYMENT)
    rig.later(301)

    listed = await asyncio.to_thread(list_blockers, at, None)
    [status] = at.status("shop").instances

    assert (listed.temporal_away, [(b.instance, b.held_by, b.since) for b in listed.rows]) == (
        True,
        [("(all)", "no worker", None), ("shop", "overdue", rig.instance_row().created_at)],
    )
    assert status.overdue_since == rig.instance_row().created_at


async def test_paused_run_is_named_behind_many_others(
    served: Served, settings: Settings, temporal_server: DevServer
) -> None:
    """One purge runs for each topic: those that only work hide none that is paused. Its topic may be unknown."""
    await search_attributes.register(served.client)
    at, queue = service(served.rig, settings, temporal_server.address, DEPLOYMENT), f"no-worker-{uuid.uuid4()}"
    paused, *others = [f"wal-{uuid.uuid4().hex[:8]}" for _ in range(22)]
    runs = [
        await served.client.start_workflow(
            ids.PURGE_WAL,
            PurgeRequest(topic=topic, deployment=DEPLOYMENT),
            id=ids.purge_wal(DEPLOYMENT, topic),
            task_queue=ids.control_queue(DEPLOYMENT) if topic == paused else queue,
            search_attributes=at_start(DEPLOYMENT, Capability.WAL, "", "test"),
            start_signal="pause",
        )
        for topic in (paused, *others)
    ]
    rows = await eventually_async("the run is named", lambda: find(at), lambda rows: "paused" in rows)
    for run in runs:
        await run.terminate()

    assert (rows["paused"].what, rows["paused"].instance) == (f"purge of topic {paused}", "(all)")
    assert "not asked" not in rows


@pytest.mark.slow
async def test_runs_that_were_not_asked_are_mentioned(
    served: Served, settings: Settings, temporal_server: DevServer
) -> None:
    """Where runs have no search attributes, only the first ones are asked."""
    at = service(served.rig, settings, temporal_server.address, DEPLOYMENT)
    runs = [
        await served.client.start_workflow(
            ids.CHECK, CheckRequest(instance=name), id=ids.check(DEPLOYMENT, name), task_queue=f"no-worker-{name}"
        )
        for name in (f"shop-{uuid.uuid4().hex[:8]}" for _ in range(21))
    ]
    rows = await eventually_async("the others are mentioned", lambda: find(at), lambda rows: "not asked" in rows)
    for run in runs:
        await run.terminate()

    assert "only 20 rounds" in rows["not asked"].why


@pytest.mark.slow
async def test_round_paused_by_temporals_button_is_named(
    served: Served, settings: Settings, temporal_server: DevServer, shop: str, tmp_path: Path
) -> None:
    rig, root = served.rig.instance(shop), tmp_path / "v"
    rig.local(root, instance=shop)
    put(root, "a/x.dat")
    rig.mark("dropped", NewMark(id="a", vault="disk", prefix="a/"), instance=shop)
    rig.later(10_801)
    at = service(rig, settings, temporal_server.address, DEPLOYMENT)
    async with served.held(shop, "files.deleted") as (handle, door):
        execution = WorkflowExecution(workflow_id=handle.id)
        which: dict[str, Any] = {"namespace": served.client.namespace, "execution": execution, "type": "recycle_range"}
        await served.client.workflow_service.pause_activity(PauseActivityRequest(**which))
        rows = await eventually_async("the pause is named", lambda: find(at), lambda rows: "paused in Temporal" in rows)
        door.open()
        await served.client.workflow_service.unpause_activity(UnpauseActivityRequest(**which))
        await handle.result()

    row = rows["paused in Temporal"]
    assert (row.instance, row.what) == (shop, f"round of {shop}")
    assert handle.id in row.way_out
    assert "paused in Temporal" not in await find(at)


async def test_without_an_answer_nothing_is_claimed(rig: Rig, settings: Settings) -> None:
    at = service(rig, settings, "127.0.0.1:1", DEPLOYMENT)

    assert await asyncio.to_thread(temporal_blockers, at) is None


@workflow.defn(name=ids.RECYCLE)
class Broken:
    """Code that cannot continue any round."""

    @workflow.run
    async def run(self, request: Any) -> None:
        del request
        raise KeyError("code of another build")


@pytest.mark.slow
async def test_a_round_that_no_code_can_continue_is_named(
    rig: Rig, settings: Settings, temporal_server: DevServer
) -> None:
    deployment = f"test-{uuid.uuid4().hex[:8]}"
    at, client = service(rig, settings, temporal_server.address, deployment), await temporal_server.connect()
    queue = ids.control_queue(deployment)
    async with Worker(client, task_queue=queue, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()):
        await client.start_workflow(ids.RECYCLE, {}, id=ids.recycle(deployment, "shop"), task_queue=queue)
        rows = await eventually_async("it failed often", lambda: failing(client, at.settings), bool)
        found = await find(at)
        doctor = {finding.about: finding for finding in await examine_temporal(at.settings)}

    assert [(row.instance, row.held_by) for row in rows] == [("shop", "failing code")]
    assert found["failing code"] == rows[0]
    assert (doctor["code"].state, doctor["code"].todo) == ("FAIL", rows[0].way_out)
