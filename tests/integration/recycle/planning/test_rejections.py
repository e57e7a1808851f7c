"""A rejected kind waits for approval until the rejection ends; a plan contains exactly the marks it was made from."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.operators.holds.store import REASON_CHARACTERS
from sexton.recycle.model import PlanRefused, UnknownPlan
from sexton.recycle.planning.model import PlanState
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.planned import (
    DAY,
    Limited,
    awaited,
    kind_plan,
    limited_policy,
    marks_by_kind,
    thousands_due,
    waiting_plans,
)

WHY = "the wrong table was dropped"


@pytest.fixture
def shop(shop: Limited) -> Limited:
    thousands_due(shop)
    return shop


def test_a_rejected_kind_waits_even_below_the_limit(shop: Limited) -> None:
    shop.garbage("compacted", 4, later=1_801)
    number = awaited(shop)
    rejected = shop.rounds.plans.approvals.reject(number, WHY, "bert")
    shop.policy = limited_policy(objects=10_000)

    plans = [shop.plan(), shop.plan()]

    [other] = waiting_plans(shop)
    waiting = shop.rounds.plans.find_plan(other)
    assert (rejected.state, rejected.approved_by, rejected.awaits) == (
        PlanState.REJECTED,
        "bert",
        f"rejected by bert: {WHY}",
    )
    assert [marks_by_kind(p) for p in plans] == [{"compacted": 4}] * 2
    assert kept_texts(plans[1]) == {f"approval of plan {other}": 30}
    assert other != number
    assert shop.rounds.plans.approvals.state(number) == PlanState.REJECTED
    assert marks_by_kind(waiting) == {"dropped": 30}
    assert f"dropped: plan {number} with it was rejected by bert: {WHY}" in waiting.awaits
    assert f"sexton plan reject {other}" in waiting.awaits
    assert f"rejected by bert: {WHY}" in kind_plan(shop.plan_as_operator(), "dropped").awaits
    assert waiting.awaits_since == waiting.created_at


def test_an_applied_plan_cancels_the_rejection(shop: Limited, tmp_path: Path) -> None:
    shop.local(tmp_path / "v")
    shop.rounds.plans.approvals.reject(awaited(shop), WHY, "bert")
    shop.policy = limited_policy(objects=10_000)
    unasked = shop.round()
    [number] = waiting_plans(shop)
    approvals = shop.rounds.plans.approvals
    with suppress(InterruptedError), approvals.approving(number, "shop", "ada"), shop.db.read() as c:
        assert "dropped" in approvals.rejected_kinds(c, "shop", shop.now())  # its round has not begun
        raise InterruptedError

    applied = shop.round(plan=number)

    assert (unasked.claimed, applied.claimed, shop.rounds.plans.approvals.state(number)) == (0, 30, "APPLIED")
    shop.garbage("dropped", 5, "next", later=10_801)
    assert (marks_by_kind(shop.plan()), waiting_plans(shop)) == ({"dropped": 5}, [])


def test_a_rejection_is_of_one_instance_and_expires_after_7_days(shop: Limited) -> None:
    shop.instance("other")
    shop.mark("dropped", NewMark(id="theirs", vault="disk", keys=("data/theirs",)), instance="other")
    shop.rounds.plans.approvals.reject(awaited(shop), WHY, "bert")
    shop.policy = limited_policy(objects=10_000)
    shop.later(7 * DAY - 600)
    before, waited = marks_by_kind(shop.plan()), len(waiting_plans(shop))
    assert marks_by_kind(shop.plan("other")) == {"dropped": 1}
    shop.later(601)

    after = shop.plan()

    assert (before, waited) == ({}, 1)
    assert (marks_by_kind(after), waiting_plans(shop)) == ({"dropped": 30}, [])


def test_only_a_waiting_plan_can_be_rejected(shop: Limited) -> None:
    looked = shop.plan_as_operator().id
    number = awaited(shop)
    shop.rounds.plans.approvals.reject(number, WHY, "bert")
    expired = awaited(shop)
    shop.later(DAY)
    applied = awaited(shop)
    shop.begin_apply(applied)
    with pytest.raises(UnknownPlan, match="there is no plan 4711"):
        shop.rounds.plans.approvals.reject(4_711, WHY, "eve")
    states = {looked: "EXPIRED", number: PlanState.REJECTED, expired: "EXPIRED"}

    for plan, state in (states | {applied: "APPLYING"}).items():
        with pytest.raises(PlanRefused, match=f"plan {plan} awaits no approval: {state}"):
            shop.rounds.plans.approvals.reject(plan, WHY, "eve")

    assert {p.approved_by for p in shop.rounds.plans.approvals.plans("shop")} == {"", "bert", "anna"}


def test_a_rejection_needs_a_readable_reason(shop: Limited) -> None:
    number = awaited(shop)
    for why in ["", "  ", "x" * (REASON_CHARACTERS + 1), "a\0b"]:
        with pytest.raises(BadInput):
            shop.rounds.plans.approvals.reject(number, why, "bert")
        assert shop.rounds.plans.approvals.state(number) == PlanState.AWAITING

    shop.rounds.plans.approvals.reject(number, WHY, "bert")
    with pytest.raises(PlanRefused, match=f"REJECTED and cannot be applied: rejected by bert: {WHY}; make a new"):
        shop.begin_apply(number)


def test_the_command_rejects_explains_and_lists_a_plan(shop: Limited, capsys: pytest.CaptureFixture[str]) -> None:
    number = awaited(shop)
    for words, code, says in [
        (("reject", "{}", "--reason", " "), 64, "--reason is empty"),
        (("reject", "4711", "--reason", WHY), 1, "there is no plan 4711"),
        (("reject", "{}"), 64, "--reason"),
        (("reject", "0", "--reason", WHY), 64, "'PLAN'"),
        (("--reject", "{}"), 64, "sexton plan reject PLAN --reason TEXT"),
    ]:
        refused = run(shop, capsys, "plan", *(w.format(number) for w in words))

        assert (refused.code, says in refused.err, "Traceback" in refused.err) == (code, True, False)
        assert shop.rounds.plans.approvals.state(number) == PlanState.AWAITING

    rejected = run(shop, capsys, "plan", "reject", str(number), "--reason", WHY)
    people = run(shop, capsys, "plan", "list").out
    [row] = [p for p in json.loads(run(shop, capsys, "plan", "list", "--json").out)["items"] if p["plan"] == number]
    other = awaited(shop)
    as_json = json.loads(run(shop, capsys, "plan", "reject", str(other), "--reason", WHY, "--json").out)

    assert (rejected.code, rejected.err) == (0, "")
    assert f"plan {number} of shop is rejected: 30 dropped" in rejected.out
    assert "7 days" in rejected.out
    assert (row["state"], row["awaits"].endswith(WHY), bool(row["approved_by"])) == (PlanState.REJECTED, True, True)
    assert PlanState.REJECTED in people
    assert "approved" not in people
    assert (as_json["plan"], as_json["state"], as_json["kinds"]) == (other, PlanState.REJECTED, ["30 dropped"])


SAME = "dropped: 30 marks, but different ones"


def exchange(shop: Limited) -> None:
    """Take one mark back, and make an equal one that was marked a minute before it, as an import may."""
    undropped = shop.row("dropped", "dropped-0")
    shop.undrop_marks("dropped", undropped.id)
    shop.mark("dropped", NewMark(id="other", vault="disk", keys=tuple(f"o/{n}" for n in range(100)), bytes=1_000))
    shop.update("mark", {"id": "other"}, marked_at=undropped.marked_at - 60_000)


def test_a_plan_with_exchanged_marks_is_refused_or_replaced(shop: Limited) -> None:
    number = awaited(shop)
    plan = shop.plan_as_operator()
    exchange(shop)
    after = shop.plan_as_operator()

    with pytest.raises(PlanRefused, match=SAME):
        shop.rounds.plans.approvals.check_apply(plan.id, "shop", shop.policy)
    with pytest.raises(PlanRefused, match=SAME):
        shop.begin_apply(plan.id)

    same = {"ages": 0, "cutoff": 0, "oldest": 0, "awaits": ""}
    assert kind_plan(after, "dropped").model_copy(update=same) == kind_plan(plan, "dropped").model_copy(update=same)

    shop.plan()

    [other] = waiting_plans(shop)
    assert (other != number, shop.rounds.plans.approvals.state(number)) == (True, PlanState.REPLACED)
    assert marks_by_kind(shop.rounds.plans.find_plan(other)) == {"dropped": 30}


def test_a_plan_survives_marks_that_came_and_vanished(shop: Limited) -> None:
    plan = shop.plan_as_operator()
    exchange(shop)
    shop.undrop_marks("dropped", "other")

    shop.mark("dropped", NewMark(id="dropped-0", vault="disk", keys=tuple(f"d/{n}" for n in range(100)), bytes=1_000))
    shop.update("mark", {"id": "dropped-0"}, marked_at=kind_plan(plan, "dropped").oldest)

    shop.begin_apply(plan.id)

    assert shop.rounds.plans.approvals.state(plan.id) == "APPLYING"
