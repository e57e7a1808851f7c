"""Rounds survive PostgreSQL, Temporal and stores that end, restart or fail; then clean rounds leave no garbage."""

import asyncio
import time
from collections.abc import Callable

import pytest

from sexton.contract import NewMark
from sexton.operators.controls.model import ControlKind
from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.stack import NAMESPACE, TemporalServer
from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.database import OwnCluster, own_cluster
from tests.fault.live.deployment import SHOP
from tests.fault.live.store import deletes
from tests.servers.fault_proxy import FaultProxy
from tests.support.eventually import eventually_async

PAGES = 16
PAGE_SECONDS = 1.5
PAGES_AFTER_A_STOP = 5
"""Those of the 5 s in which a look at the controls counts (case R33), and one that is on its way; on a slow machine a
page takes longer, and there are fewer."""


@pytest.mark.slow
@side_by_side(60)
async def test_r33_stop_and_rounds_work_while_temporal_is_down(live: LiveTest) -> None:
    """A stop ends the deletion without Temporal; the next round outlives another death of its server."""
    server = TemporalServer(live.home, Ports(live.home))  # with a database file, for this test alone
    await asyncio.to_thread(server.start)
    try:
        async with live.deployment(temporal=(server.address, NAMESPACE)) as deployment:
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
            await asyncio.to_thread(server.start)
            halted = await handle.result()
            after = len(deletes(proxy))
            rig.controls.remove(ControlKind.STOP, SHOP)

            handle = await deployment.start()
            await eventually_async("the worker deletes again", lambda: len(deletes(proxy)) >= after + 2)
            begun = len(deletes(proxy))
            server.child.kill()
            proxy.delay("DeleteObjects", 0)
            await asyncio.to_thread(server.start)
            finished = await handle.result()

            late = [page.time - stopped for page in pages if page.time > stopped]
            assert len(late) <= PAGES_AFTER_A_STOP
            assert after == len(pages) < begun < PAGES
            assert (halted.state, finished.state, finished.failed) == ("STOPPED", "SUCCEEDED", 0)
            assert halted.removed + finished.removed == rig.count("mark_history") == PAGES * 100
            assert sum(r.deleted + r.absent for r in (halted, finished)) == PAGES * 1_000
            assert cold.listing() == cold.needed
            assert rig.count("mark") == rig.count("lease", state="BUSY") == 0
    finally:
        server.child.stop()


DATABASE_PAGES = 12
BLOWS = (OwnCluster.cut_connections, OwnCluster.restart) * 2


@pytest.mark.slow
@side_by_side(35)
async def test_a_round_outlives_its_database_connections(live: LiveTest) -> None:
    with own_cluster() as cluster:
        async with live.deployment(cluster.new_database()) as deployment:
            proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
            await cold.fill(rig, DATABASE_PAGES)
            await deployment.worker("the only one")
            proxy.delay("DeleteObjects", 0.8)
            handle = await deployment.start()
            left = []
            for blow in BLOWS:
                begun = len(deletes(proxy))
                await eventually_async("the worker deletes", lambda begun=begun: len(deletes(proxy)) >= begun + 2)
                left.append(rig.count("mark"))
                await asyncio.to_thread(blow, cluster)
            report = await handle.result()

            live.note(f"struck with {left} marks left; {len(deletes(proxy))} pages in all, of {DATABASE_PAGES}")
            assert all(left)
            assert (report.state, report.removed, report.failed) == ("SUCCEEDED", DATABASE_PAGES * 100, 0)
            assert report.deleted + report.absent == DATABASE_PAGES * 1_000
            assert cold.listing() == cold.needed
            assert {t: rig.count(t) for t in ("mark", "file_list")} == {"mark": 0, "file_list": 0}
            assert rig.count("mark_history") == DATABASE_PAGES * 100
            assert rig.count("lease", state="BUSY") == 0


STORE_PAGES = 4
CLIENT_GIVES_UP_SECONDS = 11.0
Fail = Callable[[FaultProxy, str], None]
FAULTS: dict[str, Fail] = {
    "reset": lambda proxy, what: proxy.reset_next(what),
    "reply lost": lambda proxy, what: proxy.reset_next(what, after=True),
    "reply truncated": lambda proxy, what: proxy.truncate_next(what),
    "timeout": lambda proxy, what: proxy.delay(what, CLIENT_GIVES_UP_SECONDS),
    "slow down": lambda proxy, what: proxy.fail_next(what, 503, "SlowDown", 3 if what == "DeleteObjects" else 1),
}
ASKED_AGAIN = ("slow down", "reset", "reply lost")
"""One such reply to a listing is asked for again; a time-out or a reply that makes no sense is not."""


@side_by_side(60)
async def test_rounds_end_and_clean_up_under_every_store_fault(live: LiveTest) -> None:
    async with live.deployment() as deployment:
        proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
        await deployment.worker("the only one")
        for number, (fault, fail) in enumerate(FAULTS.items()):
            cold.put("dir/a.dat", "dir/b.dat")
            rig.mark("dropped", NewMark(id=f"dir{number}", vault="cold", prefix="dir/"))
            await cold.fill(rig, STORE_PAGES, after=number * STORE_PAGES)
            began = time.monotonic()

            fail(proxy, "DeleteObjects")
            during = await deployment.round()
            proxy.delay("DeleteObjects", 0)
            clean = await deployment.round()
            listed = cold.listing()
            rig.later(3_601)  # the prefix is listed once more
            fail(proxy, "ListObjectsV2")
            look = await deployment.round()
            proxy.delay("ListObjectsV2", 0)
            last = await deployment.round()

            requests = len(deletes(proxy, began))
            live.note(f"{fault}: {during.waiting} marks waited for the second round, {requests} delete requests")
            assert during.waiting > 0 or requests > STORE_PAGES + 1, fault  # it was felt
            assert proxy.faults_left("DeleteObjects") == proxy.faults_left("ListObjectsV2") == 0, fault
            assert listed == cold.listing() == cold.needed, fault
            assert (look.removed, look.faults) == ((1, 0) if fault in ASKED_AGAIN else (0, 1)), fault
            reports = (during, clean, look, last)
            assert {clean.state, last.state} == {"SUCCEEDED"}, fault
            assert {during.state, look.state} <= {"SUCCEEDED", "PARTIAL"}, fault
            assert {t: rig.count(t) for t in ("mark", "file_list")} == {"mark": 0, "file_list": 0}, fault
            assert sum(r.removed for r in reports) == STORE_PAGES * 100 + 1, fault
            assert during.failed + clean.failed + last.failed == 0, fault
        assert rig.count("mark_history") == len(FAULTS) * (STORE_PAGES * 100 + 1)
