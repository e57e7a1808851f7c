"""Memory and histories do not grow with the number of marks."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually_async
from tests.support.rig import DEPLOYMENT, Rig, listing, put
from tests.workflows.conftest import Served

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
    root = rig.local(tmp_path / "v", instance=shop)
    put(root, "live/keep.dat")
    for n in range(marks):
        put(root, f"data/{n % 100}/{n}.dat", 1)
    every = (NewMark(id=f"t{n}", vault="disk", keys=(f"data/{n % 100}/{n}.dat",), bytes=1) for n in range(marks))
    rig.mark("dropped", *every, instance=shop)
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
