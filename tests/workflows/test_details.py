"""What Temporal shows of a round or a check equals what rows and commands show, while it runs and however it ends."""

import itertools
import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError, WorkflowHandle

from sexton.insight.progress import read_running
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ControlKind
from sexton.recycle.pipeline import ranges
from sexton.recycle.rounds.model import RecycleRequest
from sexton.runtime.temporal import search_attributes
from sexton.runtime.temporal.works import ROUNDS
from tests.support.command import run
from tests.support.eventually import eventually, eventually_async, happened
from tests.workflows.conftest import Served, at_rest, limit_ranges, settings_of
from workflows import options
from workflows.search_attributes import STATE

MARKS, GROUP = 30, 10
ENDINGS = {
    "succeeds": "SUCCEEDED",
    "has a faulty vault": "PARTIAL",
    "fails": "FAILED",
    "is cancelled": "CANCELLED",
    "is stopped": "STOPPED",
    "waits for its lease": "CANCELLED",
}
"""What happens to a round → the state that each door shows at its end."""


async def details(handle: WorkflowHandle[Any, Any]) -> str:
    """Return the current details, as the Temporal UI asks for them."""
    return str((await handle.query("__temporal_workflow_metadata")).current_details)


def ending(how: str, stop: Callable[[], None], claimed: threading.Event) -> Callable[[str], None]:
    """Return a hook by which a round ends that has deleted a range, at its second claim."""
    point, claims = "claim.guarded" if how == "fails" else "claim.committed", itertools.count()

    def visit(name: str) -> None:
        if name != point or next(claims) < 1:
            return
        if how == "fails":
            raise BadInput("broken for the test")
        if how == "is stopped":
            stop()
        if how == "is cancelled":
            claimed.set()
            eventually("the activity is told of the cancel", activity.is_cancelled)

    return visit


@pytest.mark.slow
@pytest.mark.parametrize("how", ENDINGS)
async def test_each_door_shows_the_same_end_of_a_round(
    served: Served,
    shop: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: str,
) -> None:
    rig, root, claimed = served.rig, served.filled(shop, tmp_path, MARKS), threading.Event()
    limit_ranges(monkeypatch, GROUP)
    monkeypatch.setattr(options, "FIRST_BACKOFF_SECONDS", 0.01)
    await search_attributes.register(served.client)
    if how == "has a faulty vault":
        root.rename(tmp_path / "away")
    if how == "waits for its lease":
        rig.leases.acquire(shop, "recycle", "somebody")

    with installed(ending(how, lambda: rig.controls.put(ControlKind.STOP, shop, "a test", "the tester"), claimed)):
        request = RecycleRequest(instance=shop, requested_by="test")
        handle = await ROUNDS.start(served.client, settings_of(rig), request)
        if how == "waits for its lease":
            await served.waiting_reason(shop)
        if how == "is cancelled":
            await happened(claimed)
        if ENDINGS[how] == "CANCELLED":
            await handle.signal("cancel")
        with suppress(WorkflowFailureError):
            await handle.result()

    [row] = rig.rounds.reports.rounds(shop)
    show, list_, status = ("round", "show", str(row.id)), ("round", "list", shop), ("status", shop)
    shown, listed, last = (json.loads(run(rig, capsys, *words, "--json").out) for words in (show, list_, status))
    reports = [shown["round"]["report"], listed["items"][0]["report"], last["instances"][0]["last"]]
    report, text, described = reports[0], await details(handle), await handle.describe()
    numbers = f"{report['due']} due, {report['claimed']} claimed, {report['deleted']} deleted"
    assert {row.state, shown["round"]["state"], listed["items"][0]["state"], report["state"]} == {ENDINGS[how]}
    assert reports == [report] * 3
    assert described.typed_search_attributes.get(STATE) == ENDINGS[how]
    assert text.startswith(f"**{ENDINGS[how]}** round {row.id}\n- {numbers}\n")
    assert f"round {row.id} of {shop}: {ENDINGS[how]}, {numbers}" in run(rig, capsys, *show).out
    assert await described.memo() == {"instance": shop} | ({"plan": row.plan} if row.plan else {})
    expected = {"SUCCEEDED": range(MARKS, MARKS + 1), "PARTIAL": range(1)}.get(ENDINGS[how], range(GROUP, MARKS))
    assert report["deleted"] in (range(1) if how == "waits for its lease" else expected)


async def test_details_show_the_counts_of_rows(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.filled(shop, tmp_path, MARKS)
    limit_ranges(monkeypatch, GROUP)
    monkeypatch.setattr(ranges, "RANGE_OBJECTS", 2 * MARKS)  # the first range is the only one
    monkeypatch.setattr(options, "COUNT_SECONDS", 0.1)

    def gone(text: str) -> int:
        found = re.search(rf"^- (\d+) of {MARKS} objects gone", text, re.MULTILINE)
        return int(found[1]) if found else 0

    async with served.held(shop, "marks.removed") as (handle, door):
        running = gone(await eventually_async("the range is counted", lambda: details(handle), gone))
        await handle.signal("pause")
        door.open()
        await served.lease_freed(shop)
        await at_rest(handle)
        [work] = read_running(served.rig.db, shop)
        objects = work.progress.objects
        await eventually_async(
            "the pause is counted", lambda: details(handle), lambda text: "PAUSED" in text and gone(text) == objects
        )
        await handle.signal("resume")
        await handle.result()

    assert objects >= running >= GROUP
    assert f"- {MARKS} due, {MARKS} claimed, {MARKS} deleted" in await details(handle)
