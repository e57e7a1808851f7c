"""Another worker takes over when the Spark worker of a round is killed, and the round can be cancelled."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError

from sexton.insight.progress import read_running
from tests.fault.live.deployment import SHOP, Deployment
from tests.fault.live.store import PAGE, Bucket, deletes
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import Rig

PAGES = 36
REQUESTS = 4
CORES = 2
SPARK = {"SPARK__REMOTE": f"local[{CORES}]", "SPARK__SPARK_THRESHOLD_OBJECTS": 1_000}
ANSWER_SECONDS = 1.0


@pytest.fixture
async def scene(
    database_url: str, s3_server: RunningS3, bucket: str, temporal_server: DevServer, tmp_path: Path
) -> AsyncIterator[Deployment]:
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        rig = Rig(database_url, endpoint_url=proxy.url).instance()
        rig.s3(bucket)
        store = Bucket(s3_server, bucket)
        made = await Deployment.open(temporal_server.address, "", rig, tmp_path, store, proxy, asyncio.Semaphore(2))
        try:
            yield made
        finally:
            print("\n".join(made.close()))


async def begun(scene: Deployment, pages: int) -> None:
    """Wait until Spark deletes, and so many requests have come in; its rows show that it is under way."""
    already = len(deletes(scene.proxy))
    await eventually_async("Spark deletes", lambda: len(deletes(scene.proxy)) >= already + pages)

    [work] = read_running(scene.rig.db, SHOP)
    assert work.progress.expected >= sum(kind.listed for kind in work.progress.kinds) > 0


@pytest.mark.slow  # two Spark workers, each with its own Java
async def test_a_killed_spark_worker_is_replaced_and_cancelled(scene: Deployment) -> None:
    proxy, cold, rig = scene.proxy, scene.cold, scene.rig
    await cold.fill(rig, PAGES)
    await scene.worker("control", **SPARK)
    first = await scene.worker("first", role="spark", **SPARK)
    proxy.delay("DeleteObjects", 0.2)
    handle = await scene.start()
    await begun(scene, 10)

    first.kill()
    killed = time.time()
    second = await scene.worker("second", role="spark", **SPARK)
    proxy.delay("DeleteObjects", 0)
    report = await handle.result()
    named = Counter(key for page in deletes(proxy) for key in page.keys)
    twice = sum(n - 1 for n in named.values())
    print(f"killed → report {time.time() - killed:.1f} s; named twice: {twice} of {len(named)} keys")

    assert (report.state, report.removed, report.failed) == ("SUCCEEDED", PAGES * PAGE // 10, 0)
    assert {k.note for k in report.kinds} == {"deleted on Spark"}
    assert cold.listing() == cold.needed
    assert set(named) == cold.garbage
    assert twice <= CORES * REQUESTS * PAGE  # the requests of each task that were under way

    await cold.fill(rig, PAGES, after=PAGES)
    proxy.delay("DeleteObjects", ANSWER_SECONDS)
    handle = await scene.start()
    await begun(scene, 4)
    cancelled = time.monotonic()
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    print(f"cancelled → last delete {deletes(proxy)[-1].time - cancelled:.2f} s")

    assert len(deletes(proxy)) < len(named) + 2 * PAGES
    assert rig.count("lease", instance=SHOP, state="BUSY") == 0
    assert second.exit_code() is None

    os.kill(server_of(second.pid), signal.SIGKILL)
    await eventually_async("a worker whose Spark is gone takes no more work", lambda: second.exit_code() is not None)
    assert "server has ended" in "\n".join(second.tail(5))


def server_of(worker: int | None) -> int:
    """Return the Java process that a Spark worker started."""
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, rest = process.read_text().split("(")[1].rsplit(")", 1)
            if name == "java" and int(rest.split()[1]) == worker:
                return int(process.parent.name)
    raise AssertionError("it has none")
