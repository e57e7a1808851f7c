"""Two builds of workers run side by side: workflows begin on the current one, and a round moves to it."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from temporalio.api.workflowservice.v1 import (
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.client import Client, WorkflowHandle

from config.settings import Settings
from sexton.check.model import CheckRequest
from sexton.database import schema
from sexton.database.engine import Database
from sexton.interfaces.cli.doctor.surroundings import examine_polling
from sexton.interfaces.worker import control
from sexton.kernel.errors import SextonError
from sexton.kernel.process import in_background
from sexton.recycle.rounds.model import RecycleRequest
from sexton.runtime.temporal import versions
from sexton.runtime.temporal.client import Build, WorkflowQueue, workflow_queue
from sexton.runtime.temporal.versions import BuildState, explain_no_tasks
from sexton.runtime.temporal.works import CHECKS, ROUNDS
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer
from tests.support.door import door_at
from tests.support.eventually import eventually_async, happened
from tests.support.rig import Rig, listing
from tests.workflows.conftest import fill, settings_of

pytestmark = pytest.mark.slow

OLD, NEW = "1.0.0", "1.1.0"


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A rig of a deployment of its own: the current build is a fact of a whole deployment."""
    deployment = f"test-{uuid.uuid4().hex[:8]}"
    rig = Rig(new_database(deployment), deployment=deployment)
    yield rig
    rig.db.close()


def of_build(rig: Rig, build: str) -> Settings:
    return settings_of(rig, temporal={"worker_versioning": True, "build_id": build})


async def worker_of(rig: Rig, temporal_server: DevServer, build: str) -> AbstractAsyncContextManager[str]:
    return await control.build(await temporal_server.connect(), of_build(rig, build), rig.db)


async def until_known(client: Client, settings: Settings, build: str) -> dict[str, BuildState]:
    """Wait until Temporal knows a build; return the builds."""

    async def known() -> dict[str, BuildState]:
        return {found.build: found.state for found in await versions.builds(client, settings)}

    return await eventually_async(f"Temporal knows build {build}", known, lambda builds: build in builds)


async def builds_of(client: Client, handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Return the build that executed each task of a workflow's run."""
    run = client.get_workflow_handle(handle.id, run_id=handle.result_run_id)
    done = [
        event.workflow_task_completed_event_attributes
        for event in (await run.fetch_history()).events
        if event.HasField("workflow_task_completed_event_attributes")
    ]
    return [task.deployment_version.build_id or task.worker_version.build_id for task in done]


def expand(db: Database) -> None:
    """Upgrade the schema as a migration that only adds: programs of the old build may use it."""
    with db.write() as c:
        for table in (db.t.round, db.t.mark, db.t.batch):
            c.execute(text(f"ALTER TABLE {table.fullname} ADD COLUMN of_the_new_build text"))
        c.execute(text("UPDATE sexton.alembic_version SET version_num = '0002'"))


async def test_round_moves_to_the_new_build_and_ends_once(
    rig: Rig, temporal_server: DevServer, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    root = rig.instance(shop).local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, 1_000)
    client, settings = await temporal_server.connect(), of_build(rig, OLD)
    rig.policy = settings.policy()
    old, new = await worker_of(rig, temporal_server, OLD), await worker_of(rig, temporal_server, NEW)
    async with new:
        async with old, in_background(versions.promote_first(client, settings)):
            await until_known(client, settings, NEW)
            with door_at("claim.committed") as door:
                handle = await ROUNDS.start(client, settings, RecycleRequest(instance=shop, requested_by="test"))
                await happened(door.reached)
                await asyncio.to_thread(expand, rig.db)
                schema.check(rig.db, rig.deployment)  # a process of the old build that starts now
                await versions.promote(client, settings, NEW)
        left = listing(root)
        report = await handle.result()
    builds = await builds_of(client, handle)

    assert 0 < len(left) < 1_000
    assert (report.state, report.claimed, report.removed) == ("SUCCEEDED", 1_000, 1_000)
    assert listing(root) == {}
    assert (builds[0], builds[-1]) == (OLD, NEW)
    assert [row.id for row in rig.rounds.reports.rounds(shop)] == [report.round]


async def test_new_workflows_begin_on_the_current_build(
    rig: Rig, temporal_server: DevServer, shop: str, tmp_path: Path
) -> None:
    rig.instance(shop).local(tmp_path / "v", instance=shop)
    client, settings = await temporal_server.connect(), of_build(rig, OLD)
    assert await versions.builds(client, settings) == []
    old, new = await worker_of(rig, temporal_server, OLD), await worker_of(rig, temporal_server, NEW)
    async with old, in_background(versions.promote_first(client, settings)):
        first = await until_known(client, settings, OLD)
        on_old = await CHECKS.start(client, settings, CheckRequest(instance=shop, requested_by="test"))
        await on_old.result()
        async with new:
            await until_known(client, settings, NEW)
            with pytest.raises(SextonError, match=r"no worker of build 9.9.9 ever ran"):
                await versions.promote(client, settings, "9.9.9")
            await versions.promote(client, settings, NEW)
            on_new = await CHECKS.start(client, settings, CheckRequest(instance=shop, requested_by="test"))
            await on_new.result()
            after = await until_known(client, settings, NEW)

    assert first[OLD] in (BuildState.CURRENT, BuildState.INACTIVE)  # it becomes current within a second
    assert [set(await builds_of(client, handle)) for handle in (on_old, on_new)] == [{OLD}, {NEW}]
    assert after[NEW] is BuildState.CURRENT
    assert after[OLD] in (BuildState.DRAINING, BuildState.DRAINED)


async def test_build_without_a_worker_is_not_promoted(rig: Rig, temporal_server: DevServer) -> None:
    """Temporal would accept it, and then give work to no worker."""
    client, settings = await temporal_server.connect(), of_build(rig, OLD)
    async with await worker_of(rig, temporal_server, OLD), in_background(versions.promote_first(client, settings)):
        await eventually_async(
            "the first build is current",
            lambda: until_known(client, settings, OLD),
            lambda builds: builds[OLD] is BuildState.CURRENT,
        )
    queue = WorkflowQueue((Build(), Build(rig.deployment, NEW)), Build(rig.deployment, OLD))  # so it is a minute later

    refusal = await versions._refusal(client, rig.deployment, OLD, queue)

    assert "none of its workers polls" in refusal
    assert f"to build 1.0.0 of {rig.deployment} alone, and only workers of 1.1.0, no build poll" in explain_no_tasks(
        queue
    )
    assert versions.way_out(queue) == "start workers of that build, or: sexton worker promote 1.1.0"
    assert explain_no_tasks(queue._replace(current=Build())) == ""


async def test_workers_that_get_no_tasks_are_named(rig: Rig, temporal_server: DevServer) -> None:
    client, settings = await temporal_server.connect(), of_build(rig, NEW)
    none = SetWorkerDeploymentCurrentVersionRequest(namespace="default", deployment_name=rig.deployment)
    async with await worker_of(rig, temporal_server, NEW):
        await until_known(client, settings, NEW)
        await versions.promote(client, settings, NEW)
        before = await eventually_async(
            "the workers are well", lambda: examine_polling(client, settings), lambda seen: seen.state == "OK"
        )
        await client.workflow_service.set_worker_deployment_current_version(none)  # as a party that reaches Temporal
        after = await eventually_async(
            "the workers are judged otherwise", lambda: examine_polling(client, settings), lambda seen: seen != before
        )

    assert (after.state, after.todo) == ("FAIL", f"sexton worker promote {NEW}")
    assert "no build of workers is current" in after.detail


async def test_ramping_build_without_a_worker_is_named(rig: Rig, temporal_server: DevServer) -> None:
    """A round's id decides whether it begins on that build: the same instances would have no round, again and again."""
    client, settings = await temporal_server.connect(), of_build(rig, NEW)
    ramp = SetWorkerDeploymentRampingVersionRequest(
        namespace="default", deployment_name=rig.deployment, build_id=OLD, percentage=50
    )
    async with await worker_of(rig, temporal_server, OLD):
        await until_known(client, settings, OLD)
    async with await worker_of(rig, temporal_server, NEW):
        await until_known(client, settings, NEW)
        await versions.promote(client, settings, NEW)
        await client.workflow_service.set_worker_deployment_ramping_version(ramp)
        ramping = await queue_where(client, settings, lambda queue: queue.ramping is not None)
        await versions.promote(client, settings, NEW)
        after = await queue_where(client, settings, lambda queue: queue.ramping is None)

    left = ramping._replace(pollers=(Build(rig.deployment, NEW),))  # so it is a minute after the old workers have left
    assert "some workflows to workers of 1.0.0 alone (ramping)" in explain_no_tasks(left)
    assert explain_no_tasks(after) == ""


async def queue_where(client: Client, settings: Settings, condition: Callable[[WorkflowQueue], bool]) -> WorkflowQueue:
    """Wait until the queue of workflows is as a condition says; return it."""
    return await eventually_async("the queue is as expected", lambda: workflow_queue(client, settings), condition)
