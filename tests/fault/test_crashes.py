"""After a crash at any point of a round the next round finishes, loses nothing and leaves no garbage."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.crash_points import NAMES, installed
from tests.servers.postgres import new_database
from tests.support.rig import Rig, listing, put

POINTS = sorted(name for name in NAMES if name.split(".")[0] in ("resolve", "claim", "files", "outcomes", "marks"))
"""Those of a round; the others are in the contract, which the race pauses."""


class Crash(BaseException):
    """The process ends here; nobody may catch it."""


class CrashAt:
    """Raise at the n-th time a point is reached; later visits pass (the process is dead)."""

    def __init__(self, point: str, visit: int = 1) -> None:
        self.point, self.left = point, visit

    def __call__(self, name: str) -> None:
        if name == self.point:
            self.left -= 1
            if self.left == 0:
                raise Crash(name)


def _fill(rig: Rig, root: Path) -> dict[str, int]:
    for n in range(12):
        put(root, f"data/{n}/a.dat", n + 1)
        put(root, f"data/{n}/b.dat", 2)
    for n in range(4):
        rig.mark("dropped", NewMark(id=f"k{n}", vault="disk", keys=(f"data/{n}/a.dat", f"data/{n}/b.dat")))
        rig.mark("dropped", NewMark(id=f"p{n}", vault="disk", prefix=f"data/{n + 4}/"))
    needed = {key: size for key, size in listing(root).items() if int(key.split("/")[1]) >= 8}
    rig.later(10_801)
    return needed


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("same_run", [True, False], ids=["activity-retried", "next-round"])
def test_a_crash_at_any_point_loses_nothing_and_leaves_nothing(
    database_url: str, tmp_path: Path, point: str, same_run: bool
) -> None:
    rig = Rig(database_url).instance()
    root = rig.local(tmp_path / "v")
    needed = _fill(rig, root)

    plan = rig.plan().id
    with installed(CrashAt(point)), pytest.raises(Crash):
        rig.round(run="first", plan=plan)
    again = Rig(database_url)
    if same_run:
        again.round(run="first", plan=plan)
    else:
        again.later(61)
        again.round(run="second")
    again.later(3_601)
    again.round()

    assert listing(root) == needed
    assert again.count("mark") == 0
    assert again.count_files() == 0
    assert again.count("mark_history") == 8
    assert again.count("lease", state="BUSY") == 0


@pytest.mark.parametrize("point", ["resolve.stored", "files.deleted", "outcomes.recorded", "marks.removed"])
def test_crash_in_the_second_pass_loses_and_leaves_nothing(database_url: str, tmp_path: Path, point: str) -> None:
    rig = Rig(database_url).instance()
    root = rig.local(tmp_path / "v")
    needed = _fill(rig, root)
    rig.round()
    for n in range(4):
        put(root, f"data/{n + 4}/late.dat", 3)
    rig.later(3_601)

    with installed(CrashAt(point)), pytest.raises(Crash):
        rig.round()
    again = Rig(database_url)
    again.later(61)
    again.round()

    assert listing(root) == needed
    assert again.count("mark") == 0
    assert again.count_files() == 0


def test_r42_claim_with_a_lost_reply_is_adopted_and_finished(database_url: str, tmp_path: Path) -> None:
    rig = Rig(database_url).instance()
    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    rig.mark("dropped", NewMark(id="t", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    with installed(CrashAt("claim.committed")), pytest.raises(Crash):
        rig.round()
    assert rig.row("dropped", "t").state == "CLAIMED"
    assert listing(root) == {"a.dat": 10}

    again = Rig(database_url)
    again.later(61)
    report = again.round()

    assert listing(root) == {}
    assert (report.due, report.removed, report.deleted) == (0, 1, 1)


def test_next_round_closes_a_dead_round_and_its_plan(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    put(rig.local(tmp_path / "v"), "a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a.dat",)))
    rig.later(10_801)
    with installed(CrashAt("claim.committed")), pytest.raises(Crash):
        rig.round(run="terminated", plan=rig.plan().id)
    rig.later(61)

    rig.round()

    assert rig.count("round", state="RUNNING") == 0
    assert rig.count("plan", state="APPLYING") == 0
