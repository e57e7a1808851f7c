"""A round whose worker dies at any crash point is finished and deletes nothing needed."""

import time
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.crash_points import OF_ROUNDS
from tests.fault.live.concurrent_tests import LiveTest, side_by_side
from tests.support.eventually import eventually_async
from tests.support.rig import Rig, listing, put

POINTS = sorted(
    name for name in OF_ROUNDS if name.split(".")[0] not in ("undrop", "commit", "hold") and name != "owner.fenced"
)
"""Those of a round; the others are in the contract. Nobody fences here: the owner's own commit does."""
TELLING = {"claim.guarded", "claim.written", "resolve.stored", "files.deleted", "outcomes.recorded", "round.closed"}
"""Those at which most is under way; a crash at every one of them, without a process, is in ``test_crashes``."""


def _fill(rig: Rig, root: Path) -> dict[str, int]:
    """Garbage of 8 marks with 2 files each, by keys and by prefix; return what nobody marked."""
    for n in range(12):
        put(root, f"data/{n}/a.dat", n + 1)
        put(root, f"data/{n}/b.dat", 2)
    for n in range(4):
        rig.mark("dropped", NewMark(id=f"k{n}", vault="disk", keys=(f"data/{n}/a.dat", f"data/{n}/b.dat")))
        rig.mark("dropped", NewMark(id=f"p{n}", vault="disk", prefix=f"data/{n + 4}/"))
    rig.later(10_801)
    return {key: size for key, size in listing(root).items() if int(key.split("/")[1]) >= 8}


@pytest.mark.parametrize("point", [pytest.param(p, marks=() if p in TELLING else pytest.mark.soak) for p in POINTS])
@side_by_side(15)
async def test_round_survives_a_sigkill_at_every_crash_point(live: LiveTest, point: str) -> None:
    async with live.deployment(cold=False) as deployment:
        rig = deployment.rig
        root = rig.local(live.home / "v")
        needed = _fill(rig, root)
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
