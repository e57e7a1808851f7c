"""Rounds keep the order of kinds, long histories continue as a new run, and concurrent rounds are limited."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from config.settings import Settings
from sexton.interfaces.worker import control
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from tests.servers import temporal
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig, listing
from tests.workflows.conftest import Served, fill, limit_ranges, settings_of

pytestmark = pytest.mark.slow

OWN_KINDS = {"snapshot": {"retention_seconds": 600, "after": ["dropped"]}}


class Kinds:
    """Which kind was claimed when; ``broken`` makes ranges of ``dropped`` fail."""

    def __init__(self, rig: Rig, shop: str) -> None:
        self.rig, self.shop = rig, shop
        self.seen: list[tuple[int, int]] = []
        self.broken = threading.Event()

    def __call__(self, name: str) -> None:
        if name == "claim.guarded" and self.broken.is_set():
            raise BadInput("broken for the test")
        if name == "claim.committed":
            left = [self.rig.count("mark", instance=self.shop, kind=k, state="MARKED") for k in ("dropped", "snapshot")]
            self.seen.append((left[0], left[1]))


@pytest.fixture
def settings(rig: Rig) -> Settings:
    return Settings(deployment=DEPLOYMENT, database_url=rig.url, kinds=OWN_KINDS)  # type: ignore[arg-type]


async def test_kind_is_claimed_after_its_predecessor(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 500)
    fill(rig, root, shop, 300, "snapshot")
    kinds = Kinds(rig, shop)

    with installed(kinds):
        report = await served.round(shop)

    assert report.removed == 800
    assert [seen for seen in kinds.seen if seen[1] < 300] == [(0, 200), (0, 100), (0, 0)]
    assert listing(root) == {}


async def test_kind_waits_for_its_failed_predecessor(served: Served, shop: str, tmp_path: Path) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 10)
    fill(rig, root, shop, 10, "snapshot")
    kinds = Kinds(rig, shop)
    kinds.broken.set()

    with installed(kinds):
        handle = await served.start(shop)
        waiting = await served.until(handle, lambda p: p.doing == "BACKING_OFF")
        kinds.broken.clear()
        await handle.signal("retry")
        report = await handle.result()

    assert [(k.kind, k.error) for k in waiting.kinds] == [
        ("dropped", "broken for the test"),
        ("snapshot", "waits for dropped"),
    ]
    assert (report.state, report.removed) == ("SUCCEEDED", 20)
    assert kinds.seen == [(0, 10), (0, 0)]


@pytest.fixture(scope="module")
def suggesting_server() -> Iterator[DevServer]:
    """A server that suggests a new run after 30 events."""
    suggest = ["--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=30"]
    with asyncio.Runner() as runner:
        environment = runner.run(temporal.start_local(suggest))
        yield DevServer(environment)
        runner.run(environment.shutdown())


@pytest.fixture
async def short_histories(
    rig: Rig, suggesting_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    """Rounds of small ranges on that server."""
    limit_ranges(monkeypatch, 20)
    client = await suggesting_server.connect()
    async with await control.build(client, settings_of(rig), rig.db):
        yield Served(rig, client)


async def test_long_round_continues_as_a_new_run_under_one_lease(
    short_histories: Served, shop: str, tmp_path: Path
) -> None:
    rig, root = short_histories.rig, short_histories.filled(shop, tmp_path, 600)
    fill(rig, root, shop, 200, "compacted")

    handle = await short_histories.start(shop)
    report = await handle.result()

    first = await short_histories.client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id).describe()
    last = await short_histories.client.get_workflow_handle(handle.id).describe()
    assert first.status is not None
    assert first.status.name == "CONTINUED_AS_NEW"
    assert last.run_id != first.run_id
    assert last.history_length < 60
    assert (report.state, report.claimed, report.removed, report.scanned) == ("SUCCEEDED", 800, 800, 800)
    assert (report.leases, rig.count("round")) == (1, 1)
    assert [(k.kind, k.due, k.scanned, k.removed) for k in report.kinds] == [
        ("compacted", 200, 200, 200),
        ("dropped", 600, 600, 600),
    ]
    assert listing(root) == {}
    assert rig.leases.acquire(shop, "recycle", "next").epoch == 2


class TestOneSlot:
    """``recycle_concurrency`` counts leases over all workers."""

    @pytest.fixture
    def settings(self, rig: Rig) -> Settings:
        return settings_of(rig, recycle={"recycle_concurrency": 1})

    async def test_concurrent_rounds_are_limited(self, served: Served, shop: str, tmp_path: Path) -> None:
        rig = served.rig
        shops = [f"{shop}-{n}" for n in range(3)]
        for s in shops:
            served.filled(s, tmp_path / s, 5)
        most: list[int] = []

        with installed(
            lambda name: most.append(rig.count("lease", state="BUSY")) if name == "resolve.stored" else None
        ):
            reports = await asyncio.gather(*(served.round(s) for s in shops))

        assert max(most) == 1
        assert [r.removed for r in reports] == [5, 5, 5]
        assert rig.count("lease", state="BUSY") == 0


class TestOneRange:
    """``recycle_ranges_at_once`` counts the ranges of one round."""

    @pytest.fixture
    def settings(self, rig: Rig) -> Settings:
        return settings_of(rig, recycle={"recycle_ranges_at_once": 1})

    async def test_ranges_of_one_round_run_one_after_another(self, served: Served, shop: str, tmp_path: Path) -> None:
        root = served.filled(shop, tmp_path, 5)
        fill(served.rig, root, shop, 5, kind="compacted")
        handle = await served.start(shop)
        report = await handle.result()
        begun: list[int] = []
        most = 0
        for event in (await handle.fetch_history()).events:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == "recycle_range":
                begun.append(event.event_id)
            ended = event.activity_task_completed_event_attributes.scheduled_event_id
            begun = [id_ for id_ in begun if id_ != ended]
            most = max(most, len(begun))

        assert {kind.kind: kind.removed for kind in report.kinds} == {"dropped": 5, "compacted": 5}
        assert most == 1


async def test_activity_retried_before_a_new_run_costs_only_a_lease(
    short_histories: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = short_histories.filled(shop, tmp_path, 400)
    take_second_pass, once = DueMarkStore.take_second_pass, iter([True])

    def away(self: DueMarkStore, *given: Any) -> Any:
        if next(once, False):
            raise RuntimeError("the database was away for a moment")
        return take_second_pass(self, *given)

    monkeypatch.setattr(DueMarkStore, "take_second_pass", away)
    handle = await short_histories.start(shop)
    report = await handle.result()

    assert (report.state, report.removed, report.error) == ("SUCCEEDED", 400, "")
    assert listing(root) == {}
