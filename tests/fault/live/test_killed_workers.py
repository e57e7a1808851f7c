"""Another worker continues the work of a killed one; one that lost its lease or its run soon stops deleting."""

import time
from typing import Any

from temporalio.client import WorkflowHandle

from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.deployment import SHOP
from tests.fault.live.store import deletes
from tests.servers.fault_proxy import FaultProxy
from tests.support.eventually import PATIENCE_SECONDS, eventually_async

PAGES = 8


@side_by_side(25)
async def test_r31_new_round_takes_over_from_a_dead_run_and_worker(live: LiveTest) -> None:
    async with live.deployment() as deployment:
        proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
        await cold.fill(rig, PAGES)
        first = await deployment.worker("first")
        proxy.delay("DeleteObjects", 1)
        handle = await deployment.start()
        await eventually_async("the first worker deletes", lambda: len(deletes(proxy)) >= 2)
        await handle.terminate("by the test")
        first.kill()
        proxy.delay("DeleteObjects", 0)
        await deployment.worker("second")
        again = await deployment.start()
        await eventually_async("the lease is busy", lambda: _refusal(again), lambda type_: type_ == "LeaseBusy")
        before = rig.count("lease", epoch=1)

        rig.later(61)
        expired = time.monotonic()
        await eventually_async("the lease is taken over", lambda: rig.count("lease", epoch=2))
        took = time.monotonic() - expired
        report = await again.result()

        live.note(f"lease expired → taken over: {took:.1f} s")
        assert before == 1
        assert report.state == "SUCCEEDED"
        assert cold.listing() == cold.needed
        assert rig.count("mark") == 0
        assert rig.count("mark_history") == PAGES * 100
        assert rig.leases.acquire(SHOP, "recycle", "next").epoch == 3


async def _refusal(handle: WorkflowHandle[Any, Any]) -> str:
    """Return the type of the last error of what the workflow waits for."""
    waits = (await handle.describe()).raw_description.pending_activities
    return waits[0].last_failure.application_failure_info.type if waits else ""


MANY_PAGES = 12
QUIET_SECONDS = PATIENCE_SECONDS / 24
"""Several times as long as a page takes."""


def _is_quiet(proxy: FaultProxy, since: float) -> bool:
    """Return whether no request has come for a while."""
    return time.monotonic() - max([since, *(entry.time for entry in proxy.log)]) > QUIET_SECONDS


@side_by_side(75)
async def test_frozen_worker_repeats_only_pages_under_way(live: LiveTest) -> None:
    async with live.deployment() as deployment:
        with live.proxy() as others:
            proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
            await cold.fill(rig, MANY_PAGES)
            frozen = await deployment.worker("frozen")
            proxy.delay("DeleteObjects", 2)
            others.delay("DeleteObjects", 1)
            handle = await deployment.start()
            await eventually_async("the first worker deletes", lambda: len(deletes(proxy)) >= 2)
            await deployment.worker("other", S3__ENDPOINT_URL=others.url)
            begun = len(deletes(proxy))

            frozen.freeze()
            froze = time.monotonic()
            rig.later(61)
            await eventually_async("the other worker deletes", lambda: len(deletes(others)) >= 3)
            took = deletes(others)[0].time - froze
            frozen.thaw()
            thawed = time.monotonic()
            report = await handle.result()
            await eventually_async("the thawed worker does nothing more", lambda: _is_quiet(proxy, thawed))
            late = [e for e in proxy.log if e.time >= thawed]

            live.note(f"frozen → the other's first page: {took:.1f} s; late: {[e.operation for e in late]}")
            assert 2 <= begun < MANY_PAGES
            assert len(deletes(proxy, thawed)) <= 1
            assert all(set(e.keys) <= cold.garbage for e in deletes(proxy) + deletes(others))
            # It may also be given the end of the round, which looks for old files of the deletion log.
            assert {e.operation for e in late} <= {"DeleteObjects", "GetObject", "ListObjectsV2"}
            assert (report.state, report.failed) == ("SUCCEEDED", 0)
            # 0: Temporal gave each try to a poll of the frozen worker that was still open, until there were no more.
            assert report.lost_leases <= 1
            assert (report.claimed, report.removed) == (MANY_PAGES * 100, MANY_PAGES * 100)
            assert report.deleted + report.absent == MANY_PAGES * 1_000
            assert rig.count("mark_history") == MANY_PAGES * 100
            assert rig.count_files() == 0
            assert cold.listing() == cold.needed


@side_by_side(27)
async def test_r50_terminated_run_soon_stops_deleting(live: LiveTest) -> None:
    async with live.deployment() as deployment:
        proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
        await cold.fill(rig, MANY_PAGES)
        await deployment.worker("the only one")
        proxy.delay("DeleteObjects", 2)  # 24 s for all pages
        handle = await deployment.start()
        await eventually_async("the worker deletes", lambda: len(deletes(proxy)) >= 2)

        await handle.terminate("by the test")
        terminated = time.monotonic()
        await eventually_async("the worker does nothing more", lambda: _is_quiet(proxy, terminated))
        pages = deletes(proxy)
        proxy.delay("DeleteObjects", 0)
        rig.later(61)
        report = await deployment.round()

        last = pages[-1].time - terminated
        live.note(f"terminated → last page begins: {last:.1f} s, {len(pages)} of {MANY_PAGES} pages had begun")
        assert len(pages) < MANY_PAGES
        assert report.state == "SUCCEEDED"
        assert cold.listing() == cold.needed
        assert rig.count("mark") == 0
        assert rig.count("mark_history") == MANY_PAGES * 100
