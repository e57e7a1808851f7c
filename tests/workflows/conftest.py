"""A rig with a real Temporal server and a worker in this process, built by the composition root."""

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from config.settings import Settings
from sexton.contract import NewMark
from sexton.interfaces.worker import control
from sexton.kernel.crash_points import installed
from sexton.recycle.errors import PlanRefused
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline import ranges
from sexton.recycle.rounds.model import RecycleRequest, RoundProgress
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig, put
from workflows import ids

PATIENCE_SECONDS = 30.0


class Served:
    """A rig whose rounds run in Temporal."""

    def __init__(self, rig: Rig, client: Client) -> None:
        self.rig, self.client = rig, client

    async def start(self, instance: str, plan: int | None = None) -> WorkflowHandle[Any, RoundReport]:
        if plan is not None:
            with suppress(PlanRefused):  # its round is started all the same
                self.rig.approve(plan, instance)
        request = RecycleRequest(instance=instance, plan=plan, requested_by="test")
        return await self.client.start_workflow(
            ids.RECYCLE,
            request,
            id=ids.recycle(DEPLOYMENT, instance),
            task_queue=ids.control_queue(DEPLOYMENT),
            result_type=RoundReport,
        )

    async def round(self, instance: str, plan: int | None = None) -> RoundReport:
        handle = await self.start(instance, plan)
        return await handle.result()

    async def until(
        self, handle: WorkflowHandle[Any, RoundReport], condition: Callable[[RoundProgress], bool]
    ) -> RoundProgress:
        """Query the progress until a condition on it holds; return it."""
        for _ in range(int(PATIENCE_SECONDS / 0.05)):
            progress: RoundProgress = await handle.query("progress", result_type=RoundProgress)
            if condition(progress):
                return progress
            await asyncio.sleep(0.05)
        raise AssertionError(f"the condition never held; the last progress was {progress}")

    async def waiting_reason(self, instance: str) -> str:
        """Wait until the row of the instance's running round has a reason for having no lease; return it."""
        for _ in range(int(PATIENCE_SECONDS / 0.05)):
            for row in self.rig.rounds.reports.rounds(instance):
                if row.waiting:
                    return row.waiting
            await asyncio.sleep(0.05)
        raise AssertionError("no round waits")

    async def lease_freed(self, instance: str) -> str:
        """Wait as `waiting_reason` does, and until the lease, which is freed after the row was written, is free."""
        reason = await self.waiting_reason(instance)
        for _ in range(int(PATIENCE_SECONDS / 0.05)):
            if not self.rig.count("lease", instance=instance, state="BUSY"):
                return reason
            await asyncio.sleep(0.05)
        raise AssertionError("the lease was never freed")


def fill(rig: Rig, root: Path, shop: str, marks: int, kind: str = "dropped") -> None:
    """Create ``marks`` due marks of one file each."""
    for n in range(marks):
        put(root, f"{kind}/{n}.dat", 1)
    new_marks = (NewMark(id=f"t{n}", vault="disk", keys=(f"{kind}/{n}.dat",)) for n in range(marks))
    rig.mark(kind, *new_marks, instance=shop)
    rig.later(10_801)


def heavy_from(rig: Rig, objects: int) -> Settings:
    """Return settings with a Spark threshold of ``objects``."""
    usual = Settings(deployment=DEPLOYMENT, database_url=rig.url)
    return usual.model_copy(update={"spark": usual.spark.model_copy(update={"spark_threshold_objects": objects})})


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(new_database())


@pytest.fixture
def shop() -> str:
    """Return an instance name of this test alone, because workflow ids live as long as the Temporal server."""
    return f"shop-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def settings(rig: Rig) -> Settings:
    return Settings(deployment=DEPLOYMENT, database_url=rig.url)


@pytest.fixture
async def served(rig: Rig, settings: Settings, temporal_server: DevServer) -> AsyncIterator[Served]:
    client = await temporal_server.connect()
    rig.policy = settings.policy()  # a plan made by another one would be refused
    async with await control.build(client, settings, rig.db):
        yield Served(rig, client)


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 100 marks, claimed 100 at a time."""
    for name in ("RANGE_OBJECTS", "GROUP_FILES", "CHUNK_MARKS"):
        monkeypatch.setattr(ranges, name, 100)


@contextmanager
def slow(point: str, seconds: float) -> Iterator[threading.Event]:
    """Let each visit of a crash point take some seconds; the event is set when the first visit begins."""
    begun = threading.Event()

    def visit(name: str) -> None:
        if name == point:
            begun.set()
            time.sleep(seconds)

    with installed(visit):
        yield begun
