"""Another worker continues the work of a killed one, with its round or without."""

import time
from typing import Any

from temporalio.client import WorkflowHandle

from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.deployment import SHOP
from tests.fault.live.store import deletes
from tests.support.eventually import eventually_async

PAGES = 8


@side_by_side(25)
async def test_r31_another_worker_finishes_the_round_of_a_killed_one(live: LiveTest) -> None:
    async with live.deployment() as deployment:
        proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
        await cold.fill(rig, PAGES)
        first = await deployment.worker("first")
        proxy.delay("DeleteObjects", 3)
        handle = await deployment.start()
        await eventually_async("the first worker deletes", lambda: len(deletes(proxy)) >= 2)
        await deployment.worker("second")
        proxy.delay("DeleteObjects", 0.1)

        first.kill()
        killed = time.monotonic()
        await eventually_async("the second worker deletes", lambda: deletes(proxy, killed))
        took = deletes(proxy, killed)[0].time - killed
        report = await handle.result()

        live.note(f"killed → first progress of the other worker: {took:.1f} s")
        assert (report.state, report.removed, report.failed) == ("SUCCEEDED", PAGES * 100, 0)
        assert report.deleted + report.absent == PAGES * 1_000
        assert cold.listing() == cold.needed
        assert rig.count("mark_history") == PAGES * 100
        assert rig.count("lease", state="BUSY") == 0


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
