"""Rounds delete no more per day than the limit allows, also killed, cut into ranges, or overtaken by new marks."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.recycle.pipeline import ranges
from tests.support.kept import kept_texts
from tests.support.planned import DAY, HOUR, Limited, kind_plan, limited_policy, marks_by_kind, waiting_plans
from tests.support.rig import listing, put

LIMIT = 50


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


def test_the_limit_holds_in_any_24_hours(shop: Limited) -> None:
    deleted = []
    for turn in range(15):
        shop.garbage("dropped", 3, f"{turn}-", keys=7, later=3 * HOUR + 1)
        deleted.append(7 * shop.round().claimed)
        if turn in (9, 10):
            shop.round(plan=waiting_plans(shop)[0])  # an approved plan does not count, and leaves nothing that waits

    assert max(sum(deleted[n : n + 8]) for n in range(len(deleted))) <= 50
    assert sum(deleted) > 50


def test_rounds_of_a_day_share_one_limit(shop: Limited) -> None:
    shop.policy, shop.live = limited_policy(fraction=0.1), 12_000
    deleted = 0
    for turn in range(6):
        shop.garbage("dropped", 2, f"{turn}-", keys=594, later=4 * HOUR - 1)
        deleted += 594 * shop.round().claimed

    [number] = waiting_plans(shop)
    assert deleted == 1_188
    assert "max_delete_fraction 0.1 of 12,000 live objects" in shop.rounds.plans.find_plan(number).awaits


def test_approved_deletions_do_not_count_against_the_limit(shop: Limited) -> None:
    shop.garbage("dropped", 60)
    first = shop.round(after=10_801)
    [number] = waiting_plans(shop)
    applied = shop.round(plan=number)
    shop.garbage("dropped", 50, "next", later=10_801)

    after = shop.round()

    assert (first.claimed, kept_texts(first)) == (0, {f"approval of plan {number}": 60})
    assert (applied.claimed, applied.plan, kept_texts(applied)) == (60, number, {})
    assert shop.rounds.plans.approvals.state(number) == "APPLIED"
    assert (after.claimed, waiting_plans(shop)) == (50, [])


def test_a_round_above_its_estimate_stops_at_the_limit(shop: Limited, tmp_path: Path) -> None:
    drop(shop, tmp_path / "v", 4, "t", files=20)  # estimated as 40 objects, 80 in truth

    first, second, third = shop.round(after=10_801), shop.round(), shop.round()

    [number] = waiting_plans(shop)
    waits = shop.rounds.plans.find_plan(number)
    assert (first.claimed, first.deleted, kept_texts(first)) == (2, 40, {"limit of 24 hours": 2})
    assert (second.claimed, third.claimed) == (0, 0)
    assert (marks_by_kind(waits), kept_texts(second), kept_texts(third)) == (
        {"dropped": 2},
        *[{f"approval of plan {number}": 2}] * 2,
    )
    assert "a round found more objects than estimated and stopped at the limit" in waits.awaits
    assert len(listing(tmp_path / "v")) == 40


def test_one_mark_above_the_limit_waits_for_approval(shop: Limited, tmp_path: Path) -> None:
    drop(shop, tmp_path / "v", 1, "huge", files=51)
    first, second, third = shop.round(after=10_801), shop.round(), shop.round()
    [number] = waiting_plans(shop)

    applied = shop.round(plan=number)

    assert (kept_texts(first), len(listing(tmp_path / "v"))) == ({"limit of 24 hours": 1}, 0)
    assert kept_texts(second) == kept_texts(third) == {f"approval of plan {number}": 1}
    assert applied.deleted == 51


def test_a_shorter_retention_is_approved_by_its_applied_plan(shop: Limited) -> None:
    shop.policy = limited_policy(dropped=72 * HOUR)
    shop.round()
    shop.garbage("dropped", 3, later=4 * HOUR)
    shop.policy = limited_policy(dropped=HOUR)
    unasked = shop.round()
    [number] = waiting_plans(shop)
    applied = shop.round(plan=number)
    shop.garbage("dropped", 2, "later", later=HOUR + 1)

    assert (unasked.claimed, applied.claimed) == (0, 3)
    assert (shop.round().claimed, waiting_plans(shop)) == (2, [])


def test_prefixes_are_estimated_by_batches_then_by_history(shop: Limited, tmp_path: Path) -> None:
    drop(shop, tmp_path / "v", 2, "first", files=20)
    shop.later(10_801)
    guessed = kind_plan(shop.plan_as_operator(), "dropped")
    shop.round()
    drop(shop, tmp_path / "v", 1, "second")
    shop.later(DAY)
    of_swept, remembered = kind_plan(shop.plan_as_operator(), "dropped"), shop.count("mark_history")
    shop.round()  # looks at the first for the last time; the second, of one object, is swept
    drop(shop, tmp_path / "v", 1, "third")
    shop.later(DAY)

    of_history = kind_plan(shop.plan_as_operator(), "dropped")

    assert (guessed.objects, of_swept.objects, of_history.objects) == (20, 20, 20)
    assert (guessed.marks, of_swept.marks, of_history.marks) == (2, 1, 1)
    assert (of_swept.estimated, remembered, shop.count("mark_history")) == (True, 0, 2)


POINTS = ("resolve.stored", "claim.written", "claim.committed", "files.deleted", "outcomes.recorded", "marks.removed")


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
    assert marks_by_kind(shop.rounds.plans.find_plan(number)) == {"dropped": 2}


def test_the_limit_spans_all_ranges_of_a_round(shop: Limited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE_OBJECTS", 15)
    monkeypatch.setattr(ranges, "GROUP_FILES", 5)
    root = tmp_path / "v"
    for n in range(5):
        drop(shop, root, 1, f"t{n}-", files=15)
        shop.later(10)

    report = shop.round(after=3 * HOUR + 1)

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

    shop_round, other_round = shop.round(after=3 * HOUR + 1), shop.round("other")

    assert used == 45
    assert (shop_round.claimed, other_round.claimed) == (0, 1)
    assert len(waiting_plans(shop)) == 1


POINTS_OF_A_ROUND = ("round.opened", "resolve.stored", "claim.guarded", "files.deleted", "marks.removed")


@pytest.mark.parametrize("point", ["before", *POINTS_OF_A_ROUND])
def test_r45_marks_made_while_a_plan_is_applied_wait(shop: Limited, tmp_path: Path, point: str) -> None:
    root = tmp_path / "v"
    meant = drop(shop, root, 3, "meant")
    shop.later(3 * HOUR + 1)
    plan = shop.plan_as_operator()
    mistake: set[str] = set()

    def marks_everything(name: str) -> None:
        if name == point and not mistake:
            mistake.update(drop(shop, root, 60, "mistake"))

    if point == "before":
        marks_everything(point)
        shop.later(3 * HOUR + 1)  # they are due when the plan is applied
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
    assert marks_by_kind(shop.rounds.plans.find_plan(number)) == {"dropped": 60}
    assert set(listing(root)) == mistake
