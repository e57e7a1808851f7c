"""A round continues after PostgreSQL ends its connections or restarts."""

import asyncio

import pytest

from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.database import OwnCluster, own_cluster
from tests.fault.live.store import deletes
from tests.support.eventually import eventually_async

PAGES = 12
TIMES = 3


@pytest.mark.slow
@pytest.mark.parametrize("blow", [OwnCluster.cut_connections, OwnCluster.restart], ids=["cut", "restarted"])
@side_by_side(35)
async def test_a_round_outlives_its_database_connections(live: LiveTest, blow: object) -> None:
    with own_cluster() as cluster:
        async with live.deployment(cluster.new_database()) as deployment:
            proxy, cold, rig = deployment.proxy, deployment.cold, deployment.rig
            await cold.fill(rig, PAGES)
            await deployment.worker("the only one")
            proxy.delay("DeleteObjects", 0.8)
            handle = await deployment.start()
            struck, left = [], []
            for _ in range(TIMES):
                begun = len(deletes(proxy))
                await eventually_async("the worker deletes", lambda begun=begun: len(deletes(proxy)) >= begun + 2)
                left.append(rig.count("mark"))
                struck.append(await asyncio.to_thread(blow, cluster))  # type: ignore[arg-type]
            report = await handle.result()

            live.note(f"{struck} struck with {left} marks left; {len(deletes(proxy))} pages in all, of {PAGES}")
            assert all(left)
            assert (report.state, report.removed, report.failed) == ("SUCCEEDED", PAGES * 100, 0)
            assert report.deleted + report.absent == PAGES * 1_000
            assert cold.listing() == cold.needed
            assert {t: rig.count(t) for t in ("mark", "file_list")} == {"mark": 0, "file_list": 0}
            assert rig.count("mark_history") == PAGES * 100
            assert rig.count("lease", state="BUSY") == 0
