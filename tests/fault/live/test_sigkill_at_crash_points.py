"""A round or purge whose worker dies at any crash point is finished and deletes nothing needed."""

import asyncio
import time

import pytest

from sexton.wal.messages import PurgeRoundRequest, TopicCounts
from sexton.wal.sql.store import WalStore
from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.deployment import Deployment
from tests.fault.test_crashes import fill
from tests.support.crashes import OF_ROUNDS, OF_WAL
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, listing
from tests.support.topics import make_topic
from workflows import ids

TOPICS = ("orders", "users")
ENTRIES, FLUSHED = 200, 119


async def _purge_all(deployment: Deployment) -> TopicCounts:
    """Run a round, which purges the topics in one page."""
    return await deployment.client.execute_workflow(
        ids.PURGE_WAL_ROUND,
        PurgeRoundRequest(deployment=DEPLOYMENT),
        id=ids.purge_wal_round(DEPLOYMENT),
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=TopicCounts,
    )


@pytest.mark.slow
@pytest.mark.parametrize("point", sorted(OF_WAL))
@side_by_side(20)
async def test_purges_of_a_killed_worker_delete_no_needed_entry(live: LiveTest, point: str) -> None:
    async with live.deployment(cold=False) as deployment:
        logs = {name: make_topic(deployment.rig.db, name, ENTRIES, {"r1": FLUSHED}) for name in TOPICS}
        dying = await deployment.worker("dying", dies_at=point)

        ending = asyncio.ensure_future(_purge_all(deployment))
        await eventually_async(f"the worker dies at {point}", lambda: dying.exit_code() is not None)
        async with await deployment.worker_in_process():
            counts = await ending

        store = WalStore(deployment.rig.db)
        assert dying.exit_code() == -9
        assert (counts.purged, counts.started, counts.faults) == (len(TOPICS), 0, 0)
        for name, log in logs.items():
            assert [id_ for id_, _ in log.read(name, FLUSHED)] == list(range(FLUSHED, ENTRIES))
            assert [(p.floor, p.log_start, p.freed) for p in store.purges(name)] == [(FLUSHED + 1, FLUSHED, FLUSHED)]
            assert store.topic(name).freed == FLUSHED


POINTS = sorted(
    name for name in OF_ROUNDS if name.split(".")[0] not in ("undrop", "commit", "hold") and name != "owner.fenced"
)
"""Those of a round; the others are in the contract. Nobody fences here: the owner's own commit does."""
TELLING = {"claim.guarded", "claim.written", "resolve.stored", "files.deleted", "outcomes.recorded", "round.closed"}
"""Those at which most is under way; a crash at every one of them, without a process, is in ``test_crashes``."""


@pytest.mark.parametrize("point", [pytest.param(p, marks=() if p in TELLING else pytest.mark.soak) for p in POINTS])
@side_by_side(15)
async def test_r31_another_worker_ends_a_round_after_any_sigkill(live: LiveTest, point: str) -> None:
    async with live.deployment(cold=False) as deployment:
        rig = deployment.rig
        root = rig.local(live.home / "v")
        needed = fill(rig, root, "data")
        dying = await deployment.worker("dying", dies_at=point)

        handle = await deployment.start()
        await eventually_async(f"the worker dies at {point}", lambda: dying.exit_code() is not None)
        died = time.monotonic()
        async with await deployment.worker_in_process():
            await handle.result()
            took = time.monotonic() - died
            rig.later(3_601)
            await deployment.round()
        reports = deployment.reports()

        live.note(f"{point}: the round ended {took:.1f} s after the death of its worker")
        assert dying.exit_code() == -9
        assert listing(root) == needed
        assert {t: rig.count(t) for t in ("mark", "file_list", "mark_history")} == {
            "mark": 0,
            "file_list": 0,
            "mark_history": 8,
        }
        assert rig.count("lease", state="BUSY") == 0
        assert {r.state for r in reports} == {"SUCCEEDED"}
        assert sum(r.deleted + r.absent for r in reports) == 16
        assert [sum(getattr(r, n) for r in reports) for n in ("claimed", "removed", "failed")] == [8, 8, 0]
