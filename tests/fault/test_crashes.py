"""After a crash at any point of a round the next round finishes, loses nothing and leaves no garbage."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from tests.support.crashes import NAMES, Crash, crash_at
from tests.support.rig import Rig, listing, put

POINTS = sorted(name for name in NAMES if name.split(".")[0] in ("resolve", "claim", "files", "outcomes", "marks"))
"""Those of a round; the others are in the contract, which the race pauses."""


def fill(rig: Rig, root: Path, turn: str) -> dict[str, int]:
    """Let 8 marks of 2 files each be due, by keys and by prefix; return the files that nobody marked."""
    for n in range(12):
        put(root, f"{turn}/{n}/a.dat", n + 1)
        put(root, f"{turn}/{n}/b.dat", 2)
    for n in range(4):
        rig.mark("dropped", NewMark(id=f"{turn}-k{n}", vault="disk", keys=(f"{turn}/{n}/a.dat", f"{turn}/{n}/b.dat")))
        rig.mark("dropped", NewMark(id=f"{turn}-p{n}", vault="disk", prefix=f"{turn}/{n + 4}/"))
    rig.later(10_801)
    return {key: size for key, size in listing(root).items() if int(key.split("/")[1]) >= 8}


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_point_loses_nothing_and_leaves_nothing(rig: Rig, tmp_path: Path, point: str) -> None:
    """The next round goes on; that another attempt does, too, is in histories and in ``live/``."""
    root = rig.local(tmp_path / "v")
    needed = fill(rig, root, "data")

    with installed(crash_at(point)), pytest.raises(Crash):
        rig.round()
    again = Rig(rig.url)
    again.later(61)
    again.round()
    again.later(3_601)
    again.round()

    assert listing(root) == needed
    assert again.count("mark") == again.count_files() == again.count("lease", state="BUSY") == 0
    assert again.count("mark_history") == 8


@pytest.mark.slow
def test_a_run_that_died_goes_on_applying_its_plan(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    needed, plan = fill(rig, root, "data"), rig.plan().id
    with installed(crash_at("marks.removed")), pytest.raises(Crash):
        rig.round(run="first", plan=plan)
    again = Rig(rig.url)

    report = again.round(run="first", plan=plan)
    again.later(3_601)
    again.round()

    assert (report.state, report.claimed, listing(root)) == ("SUCCEEDED", 8, needed)
    assert again.count("mark") == again.count_files() == again.count("plan", state="APPLYING") == 0


def test_crash_in_the_second_pass_loses_and_leaves_nothing(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    for point in ("resolve.stored", "files.deleted", "outcomes.recorded", "marks.removed"):
        needed = fill(rig, root, point)
        rig.round()
        for n in range(4):
            put(root, f"{point}/{n + 4}/late.dat", 3)
        rig.later(3_601)

        with installed(crash_at(point)), pytest.raises(Crash):
            rig.round()
        again = Rig(rig.url)
        again.later(61)
        again.round()
        assert listing(root) == needed, point
        again.later(3_601)  # it found objects: it looks once more
        again.round()

        assert again.count("mark") == again.count_files() == 0, point


def test_r42_claim_with_a_lost_reply_is_adopted_and_finished(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    rig.drop(root, "a.dat", "t", later=10_801)
    with installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.round(run="terminated", plan=rig.plan().id)
    assert rig.row("dropped", "t").state == "CLAIMED"
    assert listing(root) == {"a.dat": 10}

    again = Rig(rig.url)
    again.later(61)
    report = again.round()

    assert listing(root) == {}
    assert (report.due, report.removed, report.deleted) == (0, 1, 1)
    assert rig.count("round", state="RUNNING") == rig.count("plan", state="APPLYING") == 0
