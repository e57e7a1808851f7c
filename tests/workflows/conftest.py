"""A rig with a real Temporal server and a worker in this process, wired by the composition root."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowHandle

import worker
from config.settings import Settings
from sexton.recycle.model import RecycleRequest, RoundReport
from tests.rig import DEPLOYMENT, Rig
from tests.servers.temporal import DevServer
from workflows import ids


class Served:
    """A rig whose rounds run in Temporal."""

    def __init__(self, rig: Rig, client: Client) -> None:
        self.rig, self.client = rig, client

    async def start(self, instance: str, plan: int | None = None) -> WorkflowHandle[object, RoundReport]:
        request = RecycleRequest(instance=instance, plan=plan, requested_by="test")
        return await self.client.start_workflow(
            "recycle-instance",
            request,
            id=ids.recycle(DEPLOYMENT, instance),
            task_queue=ids.control_queue(DEPLOYMENT),
            result_type=RoundReport,
        )

    async def round(self, instance: str, plan: int | None = None) -> RoundReport:
        handle = await self.start(instance, plan)
        return await handle.result()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(f"sqlite:///{tmp_path / 'sexton.db'}")


@pytest.fixture
def shop() -> str:
    """An instance name of this test alone: workflow ids live as long as the Temporal server."""
    return f"shop-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def served(rig: Rig, temporal_server: DevServer) -> AsyncIterator[Served]:
    client = await temporal_server.connect()
    settings = Settings(deployment=DEPLOYMENT, database_url=rig.url)
    async with await worker.build(client, settings, rig.db):
        yield Served(rig, client)
