"""A stop and a round survive a Temporal server that is killed and started again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sexton.operators.controls.model import ControlKind
from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.temporal import NAMESPACE, TemporalServer
from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.deployment import SHOP
from tests.fault.live.store import deletes
from tests.support.eventually import eventually_async

PAGES = 16
PAGE_SECONDS = 1.5
PAGES_AFTER_A_STOP = 5
"""Those of the 5 s in which a look at the controls counts (case R33), and one that is on its way; on a slow machine a
page takes longer, and there are fewer."""


@asynccontextmanager
async def _own_server(home: Path) -> AsyncIterator[TemporalServer]:
    """A Temporal server with a database file, of one test alone."""
    server = TemporalServer(home, Ports(home))
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.slow
@side_by_side(40)
async def test_r33_stop_ends_deletion_while_temporal_is_down(live: LiveTest) -> None:
    async with _own_server(live.home) as server, live.deployment(temporal=(server.address, NAMESPACE)) as deployment:
        proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
        await cold.fill(rig, PAGES)
        worker = await deployment.worker("the only one")
        proxy.delay("DeleteObjects", PAGE_SECONDS)  # 24 s for all pages
        handle = await deployment.start()
        await eventually_async("the worker deletes", lambda: len(deletes(proxy)) >= 2)
        server.child.kill()
        down = time.monotonic()
        await eventually_async("pages go on without Temporal", lambda: len(deletes(proxy, down)) >= 2)

        rig.controls.put(ControlKind.STOP, SHOP, "by the test")
        stopped = time.monotonic()
        await eventually_async("the range has ended", lambda: "Halted" in worker.log.read_text())
        pages = deletes(proxy)
        proxy.delay("DeleteObjects", 0)
        await asyncio.to_thread(server.start)
        halted = await handle.result()
        after = len(deletes(proxy))
        rig.controls.remove(ControlKind.STOP, SHOP)
        finished = await deployment.round()

        late = [page.time - stopped for page in pages if page.time > stopped]
        live.note(f"stop → last page begins: {max(late, default=0):.1f} s, {len(pages)} of {PAGES} pages had begun")
        assert len(late) <= PAGES_AFTER_A_STOP
        assert after == len(pages) < PAGES
        assert (halted.state, finished.state) == ("STOPPED", "SUCCEEDED")
        assert halted.removed + finished.removed == PAGES * 100
        assert cold.listing() == cold.needed
        assert rig.count("mark") == 0


@pytest.mark.slow
@side_by_side(40)
async def test_a_round_outlives_its_temporal_server(live: LiveTest) -> None:
    async with _own_server(live.home) as server, live.deployment(temporal=(server.address, NAMESPACE)) as deployment:
        proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
        await cold.fill(rig, PAGES)
        await deployment.worker("the only one")
        proxy.delay("DeleteObjects", 1)
        handle = await deployment.start()
        await eventually_async("the worker deletes", lambda: len(deletes(proxy)) >= 2)
        begun = len(deletes(proxy))

        server.child.kill()
        await asyncio.to_thread(server.start)
        report = await handle.result()

        live.note(f"{begun} of {PAGES} pages had begun when Temporal was killed, {len(deletes(proxy))} in all")
        assert begun < PAGES
        assert (report.state, report.removed, report.failed) == ("SUCCEEDED", PAGES * 100, 0)
        assert report.deleted + report.absent == PAGES * 1_000
        assert cold.listing() == cold.needed
        assert rig.count("mark_history") == PAGES * 100
        assert rig.count("lease", state="BUSY") == 0
