"""An operator can cancel, pause, resume and retry a check, and see its progress."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.common import RetryPolicy

from sexton.check.in_process import InProcessComparison
from sexton.check.model import CheckProgress, CheckReport, RunState
from tests.support.eventually import happened
from tests.workflows.conftest import Served, at_rest, until_doing
from tests.workflows.test_check import rig, settings, shops, started, threshold
from workflows import options

__all__ = ["rig", "settings", "threshold"]  # fixtures


@contextmanager
def endless_listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let listings last until they are interrupted; the event: one has begun."""
    listed = threading.Event()

    def listing(_: Any, __: Any, ___: Any, ____: Any, pages: Any) -> None:
        listed.set()
        while True:
            pages.heartbeat()
            time.sleep(0.01)

    with monkeypatch.context() as m:
        m.setattr(InProcessComparison, "_list", listing)
        yield listed


async def until(handle: WorkflowHandle[Any, CheckReport], doing: str) -> CheckProgress:
    return await until_doing(handle, doing, CheckProgress)


async def test_check_cancelled_by_signal_confirms_nothing(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [shop] = shops(served.rig, tmp_path, 1)
    with endless_listing(monkeypatch) as listed:
        handle = await started(served, shop)
        await happened(listed)
        await handle.signal("cancel")
        report = await handle.result()

    assert (report.run.state, report.run.missing_inputs[0]) == (RunState.PARTIAL, "cancelled")
    assert report.confirmed == {}


async def test_paused_check_lists_everything_again_when_resumed(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [shop] = shops(served.rig, tmp_path, 1)
    with endless_listing(monkeypatch) as listed:
        handle = await started(served, shop)
        await happened(listed)
        await handle.signal("pause")
        paused = await until(handle, "PAUSED")
        await at_rest(handle)
    await handle.signal("resume")
    report = await handle.result()

    assert paused.check == report.run.id
    assert report.whole
    assert report.confirmed == {"LOST": 1}


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
        waiting = await until(handle, "BACKING_OFF")
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
