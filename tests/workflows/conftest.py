"""A rig with a real Temporal server and a worker in this process, built by the composition root."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowHandle

from config.settings import Settings
from sexton.contract import NewMark
from sexton.interfaces.worker import control
from sexton.recycle.model import PlanRefused, RoundReport
from sexton.recycle.pipeline import ranges
from sexton.recycle.rounds.model import DueInstances, RecycleRequest, RoundProgress, TickRequest
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer
from tests.support.door import Door, door_at
from tests.support.eventually import eventually_async, happened
from tests.support.rig import Rig, put
from workflows import ids

STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


class Progress(Protocol):
    """What a workflow answers to the query of its progress."""

    @property
    def doing(self) -> str: ...


P = TypeVar("P", bound=Progress)
R = TypeVar("R")


class Served:
    """A rig whose rounds run in Temporal."""

    def __init__(self, rig: Rig, client: Client) -> None:
        self.rig, self.client = rig, client

    def filled(self, instance: str, folder: Path, marks: int) -> Path:
        """Register an instance with a vault, and create so many due marks of one file each; return the vault's root."""
        root = self.rig.instance(instance).local(folder / "v", instance=instance)
        fill(self.rig, root, instance, marks)
        return root

    async def begin(
        self, workflow: str, request: object, id_: str, result: type[R], signal: str | None = None
    ) -> WorkflowHandle[Any, R]:
        """Start a workflow; ``signal`` is delivered before its first step."""
        return await self.client.start_workflow(
            workflow,
            request,
            id=id_,
            task_queue=ids.control_queue(self.rig.deployment),
            result_type=result,
            start_signal=signal,
        )

    async def tick(self) -> WorkflowHandle[Any, DueInstances]:
        """Start what the schedule starts."""
        request, name = TickRequest(deployment=self.rig.deployment), ids.tick(self.rig.deployment)
        return await self.begin(ids.TICK, request, f"{name}/{uuid.uuid4().hex}", DueInstances)

    async def start(
        self, instance: str, plan: int | None = None, signal: str | None = None
    ) -> WorkflowHandle[Any, RoundReport]:
        if plan is not None:
            with suppress(PlanRefused):  # its round is started all the same
                self.rig.approve(plan, instance)
        request = RecycleRequest(instance=instance, plan=plan, requested_by="test")
        return await self.begin(ids.RECYCLE, request, ids.recycle(self.rig.deployment, instance), RoundReport, signal)

    @asynccontextmanager
    async def held(
        self, instance: str, point: str = "claim.committed", visit: int = 1
    ) -> AsyncIterator[tuple[WorkflowHandle[Any, RoundReport], Door]]:
        """Start a round and wait until it is held at a crash point; the end of the block opens the door."""
        with door_at(point, visit) as door:
            handle = await self.start(instance)
            await happened(door.reached)
            yield handle, door

    async def round(self, instance: str, plan: int | None = None) -> RoundReport:
        handle = await self.start(instance, plan)
        return await handle.result()

    async def until(
        self, handle: WorkflowHandle[Any, RoundReport], condition: Callable[[RoundProgress], bool]
    ) -> RoundProgress:
        """Query the progress until a condition on it holds; return it."""

        async def progress() -> RoundProgress:
            return await handle.query("progress", result_type=RoundProgress)

        return await eventually_async("the round's progress is as expected", progress, condition)

    async def waiting_reason(self, instance: str) -> str:
        """Wait until the row of the instance's running round has a reason for having no lease; return it."""

        def reason() -> str:
            return next((row.waiting for row in self.rig.rounds.reports.rounds(instance) if row.waiting), "")

        return await eventually_async("a round waits", reason)

    async def lease_freed(self, instance: str) -> str:
        """Wait as `waiting_reason` does, and until the lease, which is freed after the row was written, is free."""
        reason = await self.waiting_reason(instance)
        await eventually_async(
            "the lease is freed", lambda: not self.rig.count("lease", instance=instance, state="BUSY")
        )
        return reason


def fill(rig: Rig, root: Path, shop: str, marks: int, kind: str = "dropped") -> None:
    """Create ``marks`` due marks of one file each."""
    for n in range(marks):
        put(root, f"{kind}/{n}.dat", 1)
    new_marks = (NewMark(id=f"t{n}", vault="disk", keys=(f"{kind}/{n}.dat",)) for n in range(marks))
    rig.mark(kind, *new_marks, instance=shop)
    rig.later(10_801)


def settings_of(rig: Rig, **sections: Mapping[str, object]) -> Settings:
    """Return the settings of a rig's deployment, with these values in sections."""
    usual = Settings(deployment=rig.deployment, database_url=rig.url)
    return changed(usual, **sections)


def changed(usual: Settings, **sections: Mapping[str, object]) -> Settings:
    """Return settings with other values in sections."""
    return usual.model_copy(update={s: getattr(usual, s).model_copy(update=values) for s, values in sections.items()})


def heavy_from(rig: Rig, objects: int) -> Settings:
    """Return settings with a Spark threshold of ``objects``."""
    heavy = settings_of(rig, spark={"spark_threshold_objects": objects})
    return heavy.model_copy(update={"live_database_url": rig.live_url})


async def until_doing(handle: WorkflowHandle[Any, Any], doing: str, progress: type[P]) -> P:
    """Query the progress of a workflow until it does something; return it."""
    return await eventually_async(
        f"the workflow is {doing}",
        lambda: handle.query("progress", result_type=progress),
        lambda seen: seen.doing == doing,
    )


async def until_started(handle: WorkflowHandle[Any, Any], activity: str) -> None:
    """Wait until a worker has begun an activity of a workflow."""

    async def started() -> list[str]:
        description = (await handle.describe()).raw_description
        return [a.activity_type.name for a in description.pending_activities if a.state == STARTED]

    await eventually_async(f"{activity} has begun", started, lambda activities: activity in activities)


async def at_rest(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until no activity of a workflow runs or waits: it does nothing until somebody signals it."""

    async def pending() -> list[str]:
        return [a.activity_type.name for a in (await handle.describe()).raw_description.pending_activities]

    await eventually_async("the workflow has no activity", pending, lambda activities: not activities)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(new_database())
    yield rig
    rig.db.close()


@pytest.fixture
def shop() -> str:
    """Return an instance name of this test alone, because workflow ids live as long as the Temporal server."""
    return f"shop-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def settings(rig: Rig) -> Settings:
    return settings_of(rig)


@pytest.fixture
async def served(rig: Rig, settings: Settings, temporal_server: DevServer) -> AsyncIterator[Served]:
    client = await temporal_server.connect()
    rig.policy = settings.policy()  # a plan made by another one would be refused
    async with await control.build(client, settings, rig.db):
        yield Served(rig, client)


def limit_ranges(monkeypatch: pytest.MonkeyPatch, marks: int) -> None:
    """Let a range be of so many marks, which are claimed together."""
    for name in ("RANGE_OBJECTS", "GROUP_FILES", "CHUNK_MARKS"):
        monkeypatch.setattr(ranges, name, marks)


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 100 marks."""
    limit_ranges(monkeypatch, 100)
