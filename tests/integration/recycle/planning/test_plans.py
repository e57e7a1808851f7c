"""A round deletes without approval at most the limit of 24 hours; the rest waits in a plan."""

from sexton.contract import NewMark
from sexton.owners.port import OwnerSilent
from sexton.recycle.planning.model import PlanState
from tests.support.kept import kept_texts
from tests.support.planned import (
    DAY,
    HOUR,
    Limited,
    awaited,
    kind_plan,
    limited_policy,
    marks_by_kind,
    thousands_due,
    waiting_plans,
)


def test_a_kind_over_the_limit_awaits_approval_alone(shop: Limited) -> None:
    shop.garbage("dropped", 30, keys=100)
    shop.garbage("compacted", 30, keys=100, later=10_801)

    plan = shop.plan()

    [number] = waiting_plans(shop)
    other = shop.rounds.plans.find_plan(number)
    assert marks_by_kind(plan) == {"compacted": 30}
    assert kept_texts(plan) == {f"approval of plan {number}": 30}
    assert marks_by_kind(other) == {"dropped": 30}
    assert "3,000 objects" in other.awaits
    assert "max_delete_objects is 2,000" in other.awaits
    assert f"sexton apply {number}" in other.awaits
    assert shop.rounds.plans.approvals.state(number) == PlanState.AWAITING
    assert shop.rounds.plans.approvals.state(plan.id) == "PLANNED"

    by_operator = shop.plan_as_operator()

    assert marks_by_kind(by_operator) == {"compacted": 30, "dropped": 30}
    assert (by_operator.allowance, by_operator.awaits, waiting_plans(shop)) == (None, "", [number])
    assert "max_delete_objects" in kind_plan(by_operator, "dropped").awaits
    assert kind_plan(by_operator, "compacted").awaits == ""

    shop.policy = limited_policy().model_copy(update={"unlimited": None})
    without_limits = shop.plan()

    assert (marks_by_kind(without_limits), without_limits.allowance) == ({"compacted": 30, "dropped": 30}, None)


def test_deletions_of_the_last_24_hours_count(shop: Limited) -> None:
    shop.record_deletions(1_500)
    shop.garbage("dropped", 6, keys=100, later=23 * HOUR)
    soon = shop.plan()
    shop.later(HOUR + 1)
    later = shop.plan()

    assert (marks_by_kind(soon), marks_by_kind(later)) == ({}, {"dropped": 6})
    assert waiting_plans(shop) == []  # what waited in the first is no longer in the way


def silent() -> int:
    raise OwnerSilent("no answer from its catalog")


def test_the_limit_is_a_fraction_of_counted_live_objects(shop: Limited) -> None:
    shop.live = 40
    shop.garbage("dropped", 10, keys=100, later=10_801)
    assert marks_by_kind(shop.plan()) == {"dropped": 10}
    assert shop.plan().allowance == 1_000  # the least

    shop.garbage("dropped", 6, "more", keys=100, later=10_801)
    for live, goes in [(15_000, False), (16_000, True), (100, False), (None, True), (lambda: 16_000, True)]:
        shop.live = live

        assert marks_by_kind(shop.plan()) == ({"dropped": 16} if goes else {})


def test_an_owner_that_cannot_count_gets_the_lowest_limit(shop: Limited) -> None:
    shop.live = silent
    shop.garbage("dropped", 11, keys=100)
    shop.garbage("compacted", 11, keys=100, later=10_801)

    plan = shop.plan()

    [number] = waiting_plans(shop)
    assert (marks_by_kind(plan), plan.allowance) == ({"compacted": 11}, 1_000)
    assert "no answer from its catalog" in shop.rounds.plans.find_plan(number).awaits

    shop.policy = limited_policy(objects=2_000, fraction=1.0)
    uncounted = shop.plan()

    assert (marks_by_kind(uncounted), uncounted.allowance) == ({"compacted": 11, "dropped": 11}, 2_000)


def test_a_waiting_plan_is_kept_until_it_expires(shop: Limited) -> None:
    thousands_due(shop)
    number = awaited(shop)
    shop.garbage("dropped", 5, "more", keys=100, later=10_801)

    again = shop.plan()

    assert waiting_plans(shop) == [number]
    assert kept_texts(again) == {f"approval of plan {number}": 35}
    assert marks_by_kind(shop.rounds.plans.find_plan(number)) == {"dropped": 30}
    shop.later(DAY)
    assert (waiting_plans(shop), shop.rounds.plans.approvals.state(number)) == ([], PlanState.EXPIRED)

    shop.plan()

    [other] = waiting_plans(shop)
    assert marks_by_kind(shop.rounds.plans.find_plan(other)) == {"dropped": 35}
    assert shop.rounds.plans.find_plan(other).awaits_since == shop.rounds.plans.find_plan(number).created_at


def test_an_outdated_waiting_plan_is_replaced_or_withdrawn(shop: Limited) -> None:
    first = thousands_due(shop)
    number = awaited(shop)
    shop.undrop_marks("dropped", *first[:3])
    shop.later(HOUR)

    shop.plan()

    [other] = waiting_plans(shop)
    before, after = shop.rounds.plans.find_plan(number), shop.rounds.plans.find_plan(other)
    assert other != number
    assert shop.rounds.plans.approvals.state(number) == PlanState.REPLACED
    assert marks_by_kind(after) == {"dropped": 27}
    assert after.awaits_since == before.awaits_since == before.created_at

    shop.undrop_marks("dropped", *first[3:20])
    plan = shop.plan()

    assert (marks_by_kind(plan), waiting_plans(shop), kept_texts(plan)) == ({"dropped": 10}, [], {})


def test_an_observing_instance_needs_and_gives_no_approval(shop: Limited) -> None:
    shop.agree(objects=2_000, dropped=72 * HOUR)
    shop.registry.observe("shop")
    shop.garbage("dropped", 30, keys=100, later=4 * HOUR)
    shop.policy = limited_policy(objects=2_000, dropped=HOUR)

    observed = shop.plan()
    waited = waiting_plans(shop)
    shop.registry.enable("shop")
    enabled = shop.plan()

    assert (marks_by_kind(observed), kind_plan(observed, "dropped").awaits, waited) == ({"dropped": 30}, "", [])
    assert (marks_by_kind(enabled), len(waiting_plans(shop))) == ({}, 1)


def test_recent_deletions_estimate_a_prefix(shop: Limited) -> None:
    shop.mark("dropped", NewMark(id="p", vault="disk", prefix="data/p/"), NewMark(id="k", vault="disk", keys=("a/b",)))
    shop.later(10_801)
    unknown = kind_plan(shop.plan(), "dropped")
    shop.sql(
        "INSERT INTO {}mark_history"
        " (instance, kind, id, prefix, objects, bytes, marked_at, claimed_at, gone_at, batch, round)"
        " SELECT 'shop', 'dropped', 'gone', 'data/gone/', 400, 1, marked_at, marked_at, marked_at, 1, 1 FROM {}mark"
        " WHERE id = 'p'"
    )

    known = kind_plan(shop.plan(), "dropped")

    assert (unknown.objects, unknown.estimated, unknown.keys, unknown.prefixes) == (11, True, 1, 1)
    assert (known.objects, known.estimated) == (401, True)


def test_round_reports_estimate_a_prefix_despite_other_history(shop: Limited) -> None:
    shop.mark("dropped", NewMark(id="p", vault="disk", prefix="data/p/"))
    shop.later(10_801)
    shop.insert("round", instance="shop", run_id="r", state="SUCCEEDED", started_at=1)
    [ended] = shop.rows("round")
    for vault, removed, deleted in (("disk", 1, 600), ("cold", 2, 900)):
        counted = {"claimed": removed, "removed": removed, "deleted": deleted}
        zero = dict.fromkeys(("absent", "hidden", "failed", "bytes_freed", "bytes_estimated", "bytes_hidden"), 0)
        shop.insert("tally", round=ended.id, kind="dropped", vault=vault, **counted, **zero)

    assert kind_plan(shop.plan(), "dropped").objects == 500


def test_an_owners_kind_named_as_one_of_the_catalog_has_files(shop: Limited) -> None:
    kinds = ("table", "index", "partition", "txn_label")
    shop.policy = limited_policy(objects=5, **dict.fromkeys(kinds, 600))
    for kind in kinds:
        shop.mark(kind, NewMark(id="p", vault="disk", prefix=f"data/{kind}/"))
    shop.later(601)

    plan = shop.plan()

    [number] = waiting_plans(shop)
    waiting = shop.rounds.plans.find_plan(number)
    assert plan.marks == 0
    for kind in kinds:
        assert (kind_plan(waiting, kind).objects, kind_plan(waiting, kind).estimated) == (10, True)
