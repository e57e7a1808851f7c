"""A round stays below its limits when it is killed, cut into ranges, or overtaken by new marks."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.recycle.pipeline import ranges
from tests.support.planned import DAY, HOUR, Limited, limited_policy, marks_by_kind, waiting_plans
from tests.support.rig import listing, put

LIMIT = 50
POINTS = ("resolve.stored", "claim.written", "claim.committed", "files.deleted", "outcomes.recorded", "marks.removed")


@pytest.fixture
def shop(shop: Limited, tmp_path: Path) -> Limited:
    """An enabled instance with a vault, under a limit of 50 objects in 24 hours."""
    shop.local(tmp_path / "v")
    return shop


def drop(shop: Limited, root: Path, many: int, name: str, *, files: int = 1) -> set[str]:
    """Write files under one prefix each and mark the prefixes dropped; return the keys."""
    keys = {f"data/{name}{n}/{f}.dat" for n in range(many) for f in range(files)}
    for key in keys:
        put(root, key)
    shop.mark("dropped", *(NewMark(id=f"{name}{n}", vault="disk", prefix=f"data/{name}{n}/") for n in range(many)))
    return keys


def killed(shop: Limited, at: str) -> bool:
    """Run a round that dies at a point, if it comes there; its lease then runs out."""

    def dies(name: str) -> None:
        if name == at:
            raise KeyboardInterrupt

    with crash_points.installed(dies):
        try:
            shop.round()
        except KeyboardInterrupt:
            shop.later(61)
            return True
    return False


def test_rounds_killed_anywhere_stay_below_the_daily_limit(shop: Limited, tmp_path: Path) -> None:
    root = tmp_path / "v"
    everything = drop(shop, root, 4, "t", files=20)  # estimated as 10 each, so that the claim must stop it
    shop.later(3 * HOUR + 1)

    died = [killed(shop, point) for point in POINTS]  # each goes on where the one before was killed
    left = [len(everything) - len(listing(root))]
    for _ in range(3):
        shop.round()
        left.append(len(everything) - len(listing(root)))
    [number] = waiting_plans(shop)

    assert all(died)
    assert left[-1] == 40  # two marks of 20; a third would have been too many
    assert max(left) <= LIMIT
    assert marks_by_kind(shop.rounds.find_plan(number)) == {"dropped": 2}


def test_the_limit_spans_all_ranges_of_a_round(shop: Limited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE_OBJECTS", 15)
    monkeypatch.setattr(ranges, "GROUP_FILES", 5)
    root = tmp_path / "v"
    for n in range(5):
        drop(shop, root, 1, f"t{n}-", files=15)
        shop.later(10)
    shop.later(3 * HOUR + 1)

    report = shop.round()

    assert (report.claimed, report.deleted) == (3, 45)
    assert len(listing(root)) == 30


def test_each_instance_has_a_limit_of_its_own(shop: Limited, tmp_path: Path) -> None:
    shop.instance("other")
    other = shop.local(tmp_path / "other", instance="other")
    put(other, "a.dat")
    shop.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)), instance="other")
    drop(shop, tmp_path / "v", 45, "t")
    shop.later(3 * HOUR + 1)
    shop.policy = limited_policy(objects=500)
    used = shop.round().claimed
    shop.policy = limited_policy(objects=LIMIT)
    drop(shop, tmp_path / "v", 6, "more")
    shop.later(3 * HOUR + 1)

    shop_round, other_round = shop.round(), shop.round("other")

    assert used == 45
    assert (shop_round.claimed, other_round.claimed) == (0, 1)
    assert len(waiting_plans(shop)) == 1


@pytest.mark.parametrize("point", ["round.opened", "resolve.stored", "claim.guarded", "files.deleted", "marks.removed"])
def test_r45_marks_made_during_an_applied_plan_wait(shop: Limited, tmp_path: Path, point: str) -> None:
    root = tmp_path / "v"
    meant = drop(shop, root, 3, "meant")
    shop.later(3 * HOUR + 1)
    plan = shop.plan_as_operator()
    mistake: set[str] = set()

    def marks_everything(name: str) -> None:
        if name != point or mistake:
            return
        mistake.update(drop(shop, root, 60, "mistake"))

    with crash_points.installed(marks_everything):
        applied = shop.round(plan=plan.id)
    at_once = set(listing(root))
    unasked = []
    for wait in (1, 3 * HOUR + 1, DAY):
        shop.later(wait)
        unasked.append(shop.round())
    [number] = waiting_plans(shop)

    assert (applied.claimed, applied.deleted) == (len(meant), len(meant))
    assert at_once == mistake
    assert [r.claimed for r in unasked] == [0, 0, 0]
    assert marks_by_kind(shop.rounds.find_plan(number)) == {"dropped": 60}
    assert set(listing(root)) == mistake
