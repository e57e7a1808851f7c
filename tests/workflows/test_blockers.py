"""`sexton blockers` asks Temporal for the schedule, for workers, and for purges and binlog runs that wait."""

import asyncio
import uuid

import pytest

from config.settings import Settings
from sexton.interfaces.cli.commands.blockers_temporal import temporal_blockers
from sexton.interfaces.cli.render.blocker import Blocker
from sexton.interfaces.operator_service import OperatorService
from sexton.replication.binlog.messages import GcReport, GcRequest
from sexton.runtime.temporal import schedules
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig
from tests.workflows.conftest import Served
from workflows import ids


def service(rig: Rig, settings: Settings, address: str, deployment: str) -> OperatorService:
    temporal = settings.temporal.model_copy(update={"address": address})
    return OperatorService(settings.model_copy(update={"temporal": temporal, "deployment": deployment}), rig.db)


async def find(at: OperatorService) -> dict[str, Blocker]:
    """Return the rows by what blocks."""
    found = await asyncio.to_thread(temporal_blockers, at)
    assert found is not None
    return {row.held_by: row for row in found}


async def test_schedule_and_workers_are_named(rig: Rig, settings: Settings, temporal_server: DevServer) -> None:
    deployment = f"test-{uuid.uuid4().hex[:8]}"
    at = service(rig, settings, temporal_server.address, deployment)
    client = await temporal_server.connect()

    before, texts = await find(at), [await schedules.explain_idle(client, deployment)]
    await schedules.apply(client, at.settings)
    applied, texts = await find(at), [*texts, await schedules.explain_idle(client, deployment)]
    await schedules.pause(client, deployment, "migrating the database (anna)")
    paused, texts = await find(at), [*texts, await schedules.explain_idle(client, deployment)]

    assert before["no schedule"].way_out == "sexton schedules apply"
    assert before["no worker"].way_out == "python -m worker"
    assert applied.keys() == {"no worker"}
    assert paused["paused schedule"].why == "migrating the database (anna)"
    assert paused["paused schedule"].way_out == "sexton schedules resume"
    assert texts[0].startswith("no schedule was applied")
    assert texts[1] == ""
    assert "paused (migrating the database (anna))" in texts[2]


async def test_paused_binlog_run_is_named(
    served: Served, settings: Settings, temporal_server: DevServer, shop: str
) -> None:
    served.rig.instance(shop)
    at = service(served.rig, settings, temporal_server.address, DEPLOYMENT)
    run = await served.client.start_workflow(
        ids.GC_BINLOG,
        GcRequest(deployment=DEPLOYMENT, instance=shop, requested_by="test"),
        id=ids.gc_binlog(DEPLOYMENT, shop),
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=GcReport,
        start_signal="pause",
    )
    for _ in range(100):  # Temporal lists a run some moments after its start
        rows = await find(at)
        if "paused" in rows:
            break
        await asyncio.sleep(0.2)
    await run.signal("cancel")
    await run.result()

    assert rows["paused"].instance == shop
    assert rows["paused"].what == f"binlog run of {shop}"
    assert rows["paused"].way_out == f"sexton binlog resume --instance {shop}"
    assert "no worker" not in rows


async def test_without_an_answer_nothing_is_claimed(rig: Rig, settings: Settings) -> None:
    at = service(rig, settings, "127.0.0.1:1", DEPLOYMENT)

    assert await asyncio.to_thread(temporal_blockers, at) is None


@pytest.mark.parametrize("state", ["PAUSED", "BACKING OFF", "BACKING_OFF"])
def test_words_of_every_workflow_are_known(state: str) -> None:
    from sexton.runtime.temporal.waiting import STATES

    assert state.replace("_", " ") in STATES
