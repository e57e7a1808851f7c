"""Binlog runs on a real Temporal server delete expired versions on real directories of storage nodes."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from config.settings import Settings
from sexton.interfaces.worker.control import build_backend
from sexton.kernel.errors import GuardBusy
from sexton.operators.controls.model import ALL, ControlKind
from sexton.replication.binlog.model import GcProgress, GcReport, GcRequest
from sexton.replication.binlog.sql.cutting import Cutter
from tests.integration.replication.binlog_instance import INTERVAL, SHOP, BinlogInstance
from tests.integration.replication.storage_nodes import StorageNode
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import DEPLOYMENT
from tests.workflows.conftest import Served, until_doing
from workflows import ids, options

AWAY = dt.timedelta(seconds=PATIENCE_SECONDS / 12)
"""After which a backend counts as unreachable: those that run take their tasks sooner, also on a busy machine."""


class Gc:
    """Binlogs of one rig: a tablet on the backends b1 and b2, and expired upserts."""

    def __init__(self, served: Served, settings: Settings, root: Path) -> None:
        self.served, self.settings = served, settings
        self.world = BinlogInstance(served.rig.db)
        self.world.configure_log(10)
        self.world.place("t1", "b1", "b2")
        self.disks = {name: StorageNode(self.world, name, root) for name in ("b1", "b2")}
        for disk in self.disks.values():
            disk.register_tablets("t1")

    def commit(self, *versions: int) -> None:
        """Commit expired upserts, and let the backends write and report them."""
        for version in versions:
            self.world.commit(version, self.world.now - 60_000, orders={"p1": version})
            for disk in self.disks.values():
                disk.write("t1", version)
        for disk in self.disks.values():
            disk.report()

    def worker(self, backend: str) -> Any:
        """Return the worker of a backend, which does not run yet."""
        sweeper = self.disks[backend].sweeper()
        sweeper.sweep(lambda: None)  # as at its start
        return build_backend(self.served.client, self.settings, backend, sweeper)

    async def start(self, signal: str | None = None) -> WorkflowHandle[Any, GcReport]:
        """Start a binlog GC; ``signal`` is delivered before its first step."""
        request = GcRequest(deployment=DEPLOYMENT, instance=SHOP, requested_by="test")
        return await self.served.begin(ids.GC_BINLOG, request, ids.gc_binlog(DEPLOYMENT, SHOP), GcReport, signal)

    async def until(self, handle: WorkflowHandle[Any, GcReport], doing: str) -> GcProgress:
        return await until_doing(handle, doing, GcProgress)


@pytest.fixture
def gc(served: Served, settings: Settings, tmp_path: Path) -> Gc:
    return Gc(served, settings, tmp_path)


async def test_expired_versions_are_deleted_on_every_backend(gc: Gc) -> None:
    async with gc.worker("b1"), gc.worker("b2"):
        gc.commit(1, 2, 3)
        report = await (await gc.start()).result()

    assert (report.cut.cut, report.cut.records, report.backends, report.away) == (1, 3, 2, 0)
    assert (report.swept.tablets, report.swept.files) == (2, 6)
    assert [gc.disks[b].binlog_files("t1") for b in ("b1", "b2")] == [[], []]
    assert [gc.world.replica("t1", b).acked for b in ("b1", "b2")] == [3, 3]


async def test_stopped_or_cancelled_binlog_run_cuts_nothing(gc: Gc) -> None:
    gc.commit(1)
    gc.world.controls.put(ControlKind.STOP, ALL, "night")
    stopped = await (await gc.start()).result()
    gc.world.controls.remove(ControlKind.STOP, ALL)
    handle = await gc.start("pause")
    await gc.until(handle, "PAUSED")
    with pytest.raises(WorkflowAlreadyStartedError):
        await gc.start()
    await handle.signal("cancel")

    assert ("night" in stopped.cut.refused, (await handle.result()).cancelled) == (True, True)
    assert gc.world.readable_seqs() == [1]


async def test_retry_signal_repeats_a_temporary_failure_at_once(gc: Gc, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.commit(1)
    whole, broken = Cutter.cut, [True]

    def cut(self: Cutter, instance: str, name: str, tables: Sequence[str]) -> Any:
        if broken:
            raise GuardBusy("the test holds it")
        return whole(self, instance, name, tables)

    monkeypatch.setattr(Cutter, "cut", cut)
    monkeypatch.setitem(options.SQL_WRITE, "retry_policy", RetryPolicy(maximum_attempts=1))
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 600.0)
    handle = await gc.start()
    waiting = await gc.until(handle, "BACKING_OFF")
    broken.clear()
    await handle.signal("retry")
    report = await handle.result()

    assert ("the test holds it" in waiting.error, waiting.tries) == (True, 1)
    assert report.cut.cut == 1


async def test_tick_starts_a_due_binlog_run_once(gc: Gc) -> None:
    gc.commit(1)

    async def tick() -> None:
        await (await gc.served.tick()).result()
        await gc.served.client.get_workflow_handle(ids.gc_binlog(DEPLOYMENT, SHOP)).result()

    await tick()
    assert gc.world.log().watermark == 1
    gc.commit(2)
    await tick()
    assert gc.world.log().watermark == 1
    gc.world.later(INTERVAL)
    await tick()
    assert gc.world.log().watermark == 2
