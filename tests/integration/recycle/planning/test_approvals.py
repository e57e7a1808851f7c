"""An applied plan is an approved plan: unchanged since it was shown, and a shortened retention needs one."""

import re

import pytest

from sexton.recycle.model import PlanRefused
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


def refusal(shop: Limited, plan: int, instance: str = "shop") -> str:
    """Return why a plan cannot be applied; looking and doing say the same."""
    with pytest.raises(PlanRefused) as looked:
        shop.rounds.plans.approvals.check_apply(plan, instance, shop.policy)
    with pytest.raises(PlanRefused) as refused:
        shop.begin_apply(plan, instance)
    assert str(looked.value) == str(refused.value)
    return str(refused.value)


def test_a_rounds_plan_has_no_limit_once_an_operator_applies_it(shop: Limited) -> None:
    shop.garbage("dropped", 3, later=10_801)
    plan = shop.plan()
    before = shop.rounds.plans.find_plan(plan.id).allowance
    shop.begin_apply(plan.id)

    assert (before, shop.rounds.plans.find_plan(plan.id).allowance) == (2_000, None)


def test_only_an_open_plan_of_the_instance_is_applied(shop: Limited) -> None:
    shop.instance("other")
    thousands_due(shop)
    plan = shop.plan_as_operator()
    number = awaited(shop)
    shop.later(DAY - 60)
    shop.rounds.plans.approvals.check_apply(plan.id, "shop", shop.policy)
    shop.later(60)
    expired = refusal(shop, number)
    foreign = refusal(shop, plan.id, "other")
    unknown = refusal(shop, 4_711)
    old = refusal(shop, plan.id)
    plan = shop.plan_as_operator()
    shop.begin_apply(plan.id)

    for text in (expired, old):
        assert "is EXPIRED and cannot be applied: it is more than a day old; make a new one: sexton plan shop" in text
    assert "not an open plan of other" in foreign
    assert "4711 is not an open plan of shop" in unknown
    assert "APPLYING" in refusal(shop, plan.id)


def test_changed_retentions_refuse_a_plan_and_limits_do_not(shop: Limited) -> None:
    thousands_due(shop)
    number = awaited(shop)
    shop.policy = limited_policy(objects=2_000, dropped=2 * HOUR)

    assert "settings changed since" in refusal(shop, number)
    assert "retention of dropped 3 h → 2 h" in refusal(shop, number)

    shop.policy = limited_policy(objects=1_000)
    shop.begin_apply(number)

    assert shop.rounds.plans.approvals.state(number) == "APPLYING"


def test_a_plan_is_refused_after_a_change_of_marks(shop: Limited) -> None:
    ids = shop.garbage("dropped", 12, keys=100)
    shop.garbage("compacted", 4, later=10_801)
    plan = shop.plan_as_operator()
    shop.undrop_marks("dropped", *ids[:2])

    error = refusal(shop, plan.id)

    assert "dropped: 12 → 10 marks (2 undropped, deleted, claimed or quarantined)" in error
    assert "compacted" not in error
    assert error.endswith("make a new one: sexton plan shop")


def test_r36_marks_due_by_a_shorter_retention_wait(shop: Limited) -> None:
    shop.agree(dropped=72 * HOUR)
    shop.garbage("dropped", 2, "old", later=70 * HOUR)
    shop.garbage("dropped", 5, "young", later=2 * HOUR + 1)
    shop.policy = limited_policy(dropped=HOUR)

    plan = shop.plan()

    [number] = waiting_plans(shop)
    other = shop.rounds.plans.find_plan(number)
    assert (marks_by_kind(plan), marks_by_kind(other)) == ({"dropped": 2}, {"dropped": 5})
    assert kind_plan(other, "dropped").since == kind_plan(plan, "dropped").cutoff
    assert "5 marks are due only because its retention was shortened from 3 d to 1 h" in other.awaits
    assert kept_texts(plan) == {f"approval of plan {number}": 5}


def test_a_waiting_plan_excludes_marks_due_by_the_old_retention(shop: Limited) -> None:
    shop.agree(dropped=10 * HOUR)
    shop.garbage("dropped", 2, "first", later=2 * HOUR)
    shop.garbage("dropped", 5, "second", later=7 * HOUR)
    shop.policy = limited_policy(dropped=HOUR)
    number = awaited(shop)
    before = marks_by_kind(shop.rounds.plans.find_plan(number))
    shop.later(2 * HOUR)

    plan = shop.plan()

    assert (before, waiting_plans(shop)) == ({"dropped": 7}, [number])
    assert (marks_by_kind(plan), marks_by_kind(shop.rounds.plans.find_plan(number))) == ({"dropped": 2}, {"dropped": 5})
    shop.begin_apply(number)
    assert shop.rounds.plans.approvals.state(number) == "APPLYING"


def test_a_shorter_retention_without_due_marks_is_approved(shop: Limited) -> None:
    shop.agree(dropped=72 * HOUR)
    shop.agree(dropped=2 * HOUR)
    shop.garbage("dropped", 3, later=2 * HOUR + 1)

    assert (marks_by_kind(shop.plan()), waiting_plans(shop)) == ({"dropped": 3}, [])


def test_a_longer_retention_needs_no_approval(shop: Limited) -> None:
    shop.plan()
    shop.agree(dropped=72 * HOUR, snapshot=10 * HOUR)
    shop.garbage("dropped", 3)
    shop.garbage("snapshot", 1, later=4 * HOUR)
    shop.policy = limited_policy(snapshot=HOUR)

    plan = shop.plan()

    assert (marks_by_kind(plan), marks_by_kind(shop.rounds.plans.find_plan(waiting_plans(shop)[0]))) == (
        {},
        {"dropped": 3, "snapshot": 1},
    )


def test_only_a_whole_plan_approves_a_shorter_retention(shop: Limited) -> None:
    shop.agree(dropped=72 * HOUR)
    shop.garbage("dropped", 3)
    shop.garbage("compacted", 1, later=4 * HOUR)
    shop.policy = limited_policy(dropped=HOUR)
    part = shop.plan()
    shop.begin_apply(part.id)
    shop.finish_apply(part.id)
    still = marks_by_kind(shop.plan())
    whole = shop.plan_as_operator()
    shop.begin_apply(whole.id)
    shop.finish_apply(whole.id)

    assert marks_by_kind(part) == still == {"compacted": 1}
    assert re.search("shortened from 3 d to 1 h", kind_plan(whole, "dropped").awaits)
    assert marks_by_kind(shop.plan()) == {"compacted": 1, "dropped": 3}


def test_no_owner_expands_by_an_unapproved_retention(shop: Limited) -> None:
    shop.agree(dropped=72 * HOUR)
    shop.garbage("dropped", 3, later=4 * HOUR)
    before = shop.rounds.plans.due_instants("shop", shop.policy).agreed["dropped"]
    shop.policy = limited_policy(dropped=HOUR)
    shop.plan()
    disputed = shop.rounds.plans.due_instants("shop", shop.policy).agreed
    [number] = waiting_plans(shop)
    shop.begin_apply(number)
    shop.finish_apply(number)
    agreed = shop.rounds.plans.due_instants("shop", shop.policy).agreed

    assert disputed["dropped"] - before < 60_000
    assert agreed["dropped"] - disputed["dropped"] > 70 * HOUR * 1000
    assert agreed["compacted"] - disputed["compacted"] < 60_000
