"""Ranges are distributed over the workers that poll; memory and histories do not grow with the number of marks."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from config.settings import Settings
from sexton.interfaces.worker import control
from sexton.kernel.crash_points import installed
from sexton.recycle.planning import policy as planning
from sexton.runtime.temporal.client import CONVERTER
from tests.fault.live.test_intervals import garbage
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually_async
from tests.support.rig import DEPLOYMENT, Rig, listing
from tests.workflows.conftest import Served, fill

MIB = 1 << 20


def _resident(pid: int) -> int:
    """Return the resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def worker_process(rig: Rig, temporal_server: DevServer, tmp_path: Path) -> Iterator[int]:
    environment = os.environ | {
        "SEXTON_DEPLOYMENT": DEPLOYMENT,
        "SEXTON_DATABASE_URL": rig.url,
        "SEXTON_TEMPORAL__ADDRESS": temporal_server.address,
    }
    with (tmp_path / "worker.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sexton", "worker", "run"], env=environment, stdout=log, stderr=log
        )
        yield process.pid
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param(20_000, marks=pytest.mark.slow),
        pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_worker_memory_and_history_stay_small(
    rig: Rig, worker_process: int, temporal_server: DevServer, shop: str, tmp_path: Path, marks: int
) -> None:
    rig.instance(shop)
    garbage(rig, root := tmp_path / "v", shop, marks)
    rig.later(10_801)
    client = await temporal_server.connect()
    handle = await Served(rig, client).start(shop)
    await eventually_async("a tenth is deleted", lambda: rig.count("mark_history"), lambda n: n >= marks // 10)
    at_ten_percent = _resident(worker_process)

    report = await handle.result()
    growth = (_resident(worker_process) - at_ten_percent) / MIB
    history = await handle.fetch_history()

    print(f"{marks} marks: memory grew by {growth:.1f} MiB after 10 %, history has {len(history.events)} events")
    assert (report.removed, report.deleted, report.failed) == (marks, marks, 0)
    assert listing(root) == {"live/keep.dat": 10}
    assert growth <= 50
    assert len(history.events) <= 300


SHARDS = 16


def take_a_while(point: str) -> None:
    """Let each range last, so that the next ones begin beside it."""
    if point == "resolve.stored":
        time.sleep(0.3)


@pytest.mark.slow
async def test_two_workers_share_the_ranges_of_a_round(
    rig: Rig,
    settings: Settings,
    temporal_server: DevServer,
    shop: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "SHARD_OBJECTS", 1)
    rig.policy = settings.policy()
    rig.instance(shop)
    fill(rig, rig.local(tmp_path / "v", instance=shop), shop, SHARDS)
    one, other = [
        await Client.connect(temporal_server.address, data_converter=CONVERTER, identity=identity)
        for identity in ("one", "other")
    ]
    async with await control.build(one, settings, rig.db), await control.build(other, settings, rig.db):
        with installed(take_a_while):
            handle = await Served(rig, one).start(shop)
            report = await handle.result()
    events = (await handle.fetch_history()).events
    ranges = {
        e.event_id for e in events if e.activity_task_scheduled_event_attributes.activity_type.name == "recycle_range"
    }
    started = [e.activity_task_started_event_attributes for e in events]
    by_worker = Counter(s.identity for s in started if s.scheduled_event_id in ranges)

    print(dict(by_worker))
    assert report.deleted == SHARDS
    assert by_worker.keys() == {"one", "other"}
