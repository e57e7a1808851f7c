"""On a real Temporal server each instance has one check at a time, which can be cancelled and continued."""

import asyncio
import datetime as dt
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from config.settings import Settings
from sexton.check.checker import Checker
from sexton.check.in_process import InProcessComparison
from sexton.check.model import CheckProgress, CheckReport, CheckRequest, RunState
from sexton.interfaces.worker import control
from sexton.runtime.worker_rows import WorkerPresence
from tests.integration.check.conftest import Owned, file_keys
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually_async, happened
from tests.support.rig import DEPLOYMENT, Rig, put
from tests.support.transactions import owner_write
from tests.workflows.conftest import Served, at_rest, settings_of, until_doing
from tests.workflows.test_details import details
from workflows import ids, options
from workflows.options import COMPARISONS_AT_ONCE


@pytest.fixture
def rig() -> Iterator[Rig]:
    owned = Owned(new_database())
    yield owned
    owned.db.close()


@pytest.fixture
def threshold() -> int:
    """Objects from which on a check is Spark's."""
    return 250_000


@pytest.fixture
def settings(rig: Rig, threshold: int) -> Settings:
    return settings_of(rig, spark={"spark_threshold_objects": threshold})


def shops(rig: Rig, root: Path, count: int) -> Sequence[str]:
    """Make so many instances, each with a lost file and one that nobody knows."""
    assert isinstance(rig, Owned)
    made = [f"shop-{uuid.uuid4().hex[:8]}" for _ in range(count)]
    with owner_write(rig.db) as c:
        c.exec_driver_sql("CREATE TABLE file (kind text, id text, vault text, key text, bytes bigint, instance text)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT * FROM file")
    for shop in made:
        rig.instance(shop)
        rig.registry.set_key_pattern(shop, ".*dat")
        place = rig.local(root / shop, instance=shop)
        for key in file_keys(20):
            put(place, key)
        with owner_write(rig.db) as c:
            for key in file_keys(20)[1:]:
                c.exec_driver_sql("INSERT INTO file VALUES ('rowset', %s, 'disk', %s, 10, %s)", (key, key, shop))
        (place / file_keys(20)[7]).unlink()
    rig.later(2 * 86_400)
    return made


async def started(served: Served, shop: str) -> WorkflowHandle[Any, CheckReport]:
    request = CheckRequest(instance=shop, requested_by="test")
    return await served.begin(ids.CHECK, request, ids.check(DEPLOYMENT, shop), CheckReport)


@pytest.mark.slow
async def test_k12_each_of_ten_instances_is_checked_once(
    served: Served, settings: Settings, temporal_server: DevServer, tmp_path: Path
) -> None:
    made = shops(served.rig, tmp_path, 10)
    more = [await control.build(await temporal_server.connect(), settings, served.rig.db) for _ in range(2)]
    async with more[0], more[1]:

        async def whole_checks() -> int:
            due = await (await served.tick()).result()
            assert len(due.checks) <= 4
            return served.rig.count("check_run", state="WHOLE")

        await eventually_async("every instance is checked", whole_checks, lambda checks: checks == 10)

    assert served.rig.count("check_run") == 10
    for shop in made:
        assert served.rig.open_findings(shop) == {"LOST": {file_keys(20)[7]}, "ORPHAN": {file_keys(20)[0]}}


@contextmanager
def endless_listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let listings last until they are interrupted; the event: one has begun."""
    listed = threading.Event()

    def listing(_: Any, __: Any, ___: Any, counter: Any) -> None:
        listed.set()
        while True:
            counter.heartbeat()
            time.sleep(0.01)

    with monkeypatch.context() as m:
        m.setattr(InProcessComparison, "_list", listing)
        yield listed


async def test_a_check_is_the_only_one_and_obeys_signals(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [shop] = shops(served.rig, tmp_path, 1)
    monkeypatch.setattr(options, "COUNT_SECONDS", 0.1)
    with endless_listing(monkeypatch) as listed:
        first = await started(served, shop)
        await happened(listed)
        await eventually_async("it is counted", lambda: details(first), lambda text: "objects listed: 0" in text)
        with pytest.raises(WorkflowAlreadyStartedError):
            await started(served, shop)
        await first.cancel()
        with pytest.raises(WorkflowFailureError):
            await first.result()
        listed.clear()
        second = await started(served, shop)
        await happened(listed)
        await second.signal("cancel")
        signalled = await second.result()
        listed.clear()
        third = await started(served, shop)
        await happened(listed)
        await third.signal("pause")
        paused = await until_doing(third, "PAUSED", CheckProgress)
        await at_rest(third)
    await third.signal("resume")  # it lists everything again
    report = await third.result()
    cancelled = served.rig.runs.runs(shop)[-1]

    for run in (cancelled, signalled.run):
        assert (run.state, run.missing_inputs[0]) == (RunState.PARTIAL, "cancelled")
    assert signalled.confirmed == {}
    assert paused.check == report.run.id
    assert (report.whole, report.confirmed) == (True, {"LOST": 1})
    assert "- objects listed: 19, records read: 19\n" in await details(third)


async def test_retry_ends_the_backoff_of_a_check(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 600.0)
    monkeypatch.setitem(options.COMPARE, "retry_policy", RetryPolicy(maximum_attempts=1))
    [shop] = shops(served.rig, tmp_path, 1)

    def broken(*_: Any) -> None:
        raise TimeoutError("for the test")

    with monkeypatch.context() as m:
        m.setattr(InProcessComparison, "_list", broken)
        handle = await started(served, shop)
        waiting = await until_doing(handle, "BACKING_OFF", CheckProgress)
    await handle.signal("retry")
    report = await handle.result()

    assert (waiting.tries, waiting.backoff_seconds, waiting.error) == (1, 600.0, "for the test")
    assert report.whole


async def test_check_that_fails_in_each_try_ends_without_a_result(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 0.1)
    monkeypatch.setitem(options.COMPARE, "retry_policy", RetryPolicy(maximum_attempts=1))
    [shop] = shops(served.rig, tmp_path, 1)
    tries = []

    def broken(*_: Any) -> None:
        tries.append(1)
        raise TimeoutError("for the test")

    monkeypatch.setattr(InProcessComparison, "_list", broken)
    handle = await started(served, shop)
    with pytest.raises(Exception, match="Workflow execution failed"):
        await handle.result()
    [run] = served.rig.runs.runs(shop)

    assert (len(tries), run.state) == (options.MAX_CHECK_TRIES, RunState.PARTIAL)
    assert "for the test" in run.missing_inputs[0]


@pytest.mark.parametrize("threshold", [1])
async def test_control_worker_does_a_heavy_check_without_spark(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows.options.SPARK_WAIT", dt.timedelta(seconds=1))
    monkeypatch.setattr("sexton.insight.progress.ABSENT_MS", 3_600_000)
    [shop] = shops(served.rig, tmp_path, 1)
    for busy, sentence in ((1, "no Spark worker is free"), (0, "no Spark worker took it within 1 s")):
        served.rig.all_stores.workers.report(WorkerPresence(worker="nobody", role="spark", slots=1, busy=busy))

        report = await (await started(served, shop)).result()

        assert report.whole
        assert report.run.evidence is not None
        assert [note for note in report.run.evidence.notes if sentence in note]


@pytest.mark.slow
async def test_rounds_run_beside_more_comparisons_than_slots(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shops(served.rig, tmp_path, COMPARISONS_AT_ONCE + 2)
    served.filled(shop, tmp_path, 1)
    compare, may_end, begun = Checker.compare, threading.Event(), threading.Semaphore(0)

    def waiting(self: Checker, *order: Any) -> Any:
        begun.release()
        assert may_end.wait(PATIENCE_SECONDS)
        return compare(self, *order)

    monkeypatch.setattr(Checker, "compare", waiting)
    checks = [await started(served, check) for check in made]
    for _ in range(COMPARISONS_AT_ONCE):
        assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE_SECONDS)

    report = await served.round(shop)
    begun_too_many = begun.acquire(blocking=False)
    may_end.set()
    reports = [await check.result() for check in checks]

    assert report.state in ("SUCCEEDED", "PARTIAL")  # a busy machine may take long to prove a vault
    assert not begun_too_many
    assert [r.whole for r in reports] == [True] * len(made)
