"""Every one of many instances has a round in every interval."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from config.sections import RecycleSection
from config.settings import Settings
from sexton.contract import NewMark
from sexton.runtime.temporal import schedules
from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.fault.live.deployment import SHOP, Deployment
from tests.servers.temporal import schedule_rests
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT, Rig, listing, put
from workflows import ids

pytestmark = pytest.mark.slow

TENANTS = [f"tenant-{n}" for n in range(9)]
INTERVAL = 20
FEW = {
    "RECYCLE__RECYCLE_INTERVAL_SECONDS": INTERVAL,
    "RECYCLE__INSTANCE_RECYCLER_WORKER_POOL_SIZE": 8,
    "RECYCLE__RECYCLE_CONCURRENCY": 3,
}
KEEP = {"live/keep.dat": 10}


def garbage(rig: Rig, root: Path, instance: str, marks: int) -> None:
    """Make a vault with a needed file and so many marks of one file each."""
    rig.local(root, instance=instance)
    put(root, "live/keep.dat")
    for n in range(marks):
        put(root, f"data/{n % 100}/{n}.dat", 1)
    every = (NewMark(id=f"t{n}", vault="disk", keys=(f"data/{n % 100}/{n}.dat",), bytes=1) for n in range(marks))
    rig.mark("dropped", *every, instance=instance)


def _starts(rig: Rig) -> dict[str, list[int]]:
    """Return when each instance's rounds began, in ms."""
    round_, starts = rig.db.t.round, defaultdict(list)
    with rig.db.read() as c:
        for row in c.execute(select(round_.c.instance, round_.c.started_at).order_by(round_.c.id)):
            starts[row.instance].append(row.started_at)
    return starts


def _early(starts: dict[str, list[int]]) -> list[str]:
    """Return the instances that began more rounds than intervals had begun since their first one.

    Two rounds of a slow machine may follow each other closely: the first one began late in its interval.
    """
    return [name for name, own in starts.items() if any(s < own[0] + k * INTERVAL * 1000 for k, s in enumerate(own))]


def _overtaken(starts: dict[str, list[int]]) -> list[tuple[str, str]]:
    """Return pairs of which the first one began two more rounds before the second one began any.

    A slow machine makes all of them late, but lets none pass another.
    """
    turns = [(name, own[k], own[k + 2]) for name, own in starts.items() for k in range(len(own) - 2)]
    return [
        (name, other)
        for name, first, third in turns
        for other, own in starts.items()
        if not any(first <= start <= third for start in own)
    ]


async def _rounds_begun(rig: Rig, names: Sequence[str], number: int) -> None:
    """Wait until each of these instances has begun so many rounds."""
    await eventually_async(
        f"each instance has begun {number} rounds",
        lambda: {name: len(own) for name, own in _starts(rig).items()},
        lambda begun: all(begun.get(name, 0) >= number for name in names),
    )


async def _schedule(deployment: Deployment) -> None:
    settings = Settings(
        deployment=DEPLOYMENT,
        database_url=deployment.rig.url,
        recycle=RecycleSection(recycle_interval_seconds=INTERVAL),
    )
    await schedules.apply(deployment.client, settings)


async def _end(deployment: Deployment) -> None:
    """Pause the schedule and wait for the last round's end."""
    await schedules.pause(deployment.client, DEPLOYMENT, "the test has seen enough")
    await schedule_rests(deployment.client, ids.tick(DEPLOYMENT))
    for name in (SHOP, *TENANTS):
        await deployment.client.get_workflow_handle(ids.recycle(DEPLOYMENT, name)).result()


@pytest.mark.parametrize(("marks", "cap"), [(3_000, 75), pytest.param(100_000, 0, marks=pytest.mark.soak)])
@side_by_side(60)
async def test_r29_each_instance_has_one_round_in_an_interval(live: LiveTest, marks: int, cap: int) -> None:
    """An instance with much garbage delays no other.

    Its round lasts two intervals: because there is much of it, or because an operator caps it.
    """
    async with live.deployment(cold=False) as deployment:
        rig = deployment.rig
        await asyncio.to_thread(garbage, rig, live.home / SHOP, SHOP, marks)
        if cap:
            rig.all_stores.paces.put_cap(f"{SHOP}/disk", cap)
        for name in TENANTS:
            garbage(rig.instance(name), live.home / name, name, 5)
        rig.later(10_801)
        await asyncio.gather(*(deployment.worker(f"worker {n}", **FEW) for n in range(3)))

        await _schedule(deployment)
        await _rounds_begun(rig, (SHOP,), 1)
        first = deployment.client.get_workflow_handle(ids.recycle(DEPLOYMENT, SHOP))
        await first.result()
        for n in range(1, 5):
            await _rounds_begun(rig, TENANTS, n)
        await _end(deployment)
        starts = _starts(rig)

        big = rig.rounds.reports.find_round(SHOP, last=100)[-1]
        apart = [(b - a) / 1000 for i in TENANTS for a, b in itertools.pairwise(starts[i])]
        took = ((big.ended_at or 0) - (big.started_at or 0)) / 1000
        live.note(
            f"{marks} marks took {took:.1f} s; rounds of the others are {min(apart):.1f} to {max(apart):.1f} s apart"
        )
        assert big.removed == marks
        assert took > INTERVAL  # or nobody could have been kept waiting
        assert max(own[0] for own in starts.values()) <= starts[SHOP][1]  # nobody waits for its second turn
        assert _early(starts) == []
        assert _overtaken({name: starts[name] for name in TENANTS}) == []
        assert rig.count("lease", state="IDLE") == rig.count("lease") == 10
        assert rig.count("round", state="SUCCEEDED") == rig.count("round")
        assert all(listing(live.home / name) == KEEP for name in (SHOP, *TENANTS))
