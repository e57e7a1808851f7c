"""A plan contains exactly the marks it was made from, not others of the same number and size."""

import pytest
from sqlalchemy import update

from sexton.contract import NewMark, undrop
from sexton.recycle.errors import PlanRefused
from sexton.recycle.planning.model import PlanState
from tests.support.planned import Limited, awaited, kind_plan, marks_by_kind, thousands_due, waiting_plans

SAME = "dropped: 30 marks, but different ones"


@pytest.fixture
def shop(shop: Limited) -> Limited:
    thousands_due(shop)
    return shop


def exchange(shop: Limited) -> None:
    """Take one mark back, and make an equal one that was marked a minute before it, as an import may."""
    undropped, mark = shop.row("dropped", "dropped-0"), shop.db.t.mark
    with shop.db.write() as c:
        undrop(c, "shop", "dropped", [undropped.id])
    shop.mark("dropped", NewMark(id="other", vault="disk", keys=tuple(f"o/{n}" for n in range(100)), bytes=1_000))
    with shop.db.write() as c:
        c.execute(update(mark).where(mark.c.id == "other").values(marked_at=undropped.marked_at - 60_000))


def test_a_plan_with_exchanged_marks_is_refused(shop: Limited) -> None:
    plan = shop.plan_as_operator()
    exchange(shop)
    after = shop.plan_as_operator()

    with pytest.raises(PlanRefused, match=SAME):
        shop.rounds.plans.approvals.check_apply(plan.id, "shop", shop.policy)
    with pytest.raises(PlanRefused, match=SAME):
        shop.begin_apply(plan.id)

    assert kind_plan(after, "dropped").model_copy(
        update={"ages": 0, "cutoff": 0, "oldest": 0, "awaits": ""}
    ) == kind_plan(plan, "dropped").model_copy(update={"ages": 0, "cutoff": 0, "oldest": 0, "awaits": ""})


def test_a_waiting_plan_with_exchanged_marks_is_replaced(shop: Limited) -> None:
    number = awaited(shop)
    exchange(shop)

    shop.plan()

    [other] = waiting_plans(shop)
    assert (other != number, shop.rounds.plans.approvals.state(number)) == (True, PlanState.REPLACED)
    assert marks_by_kind(shop.rounds.find_plan(other)) == {"dropped": 30}


def test_a_plan_survives_marks_that_came_and_vanished(shop: Limited) -> None:
    plan = shop.plan_as_operator()
    exchange(shop)
    with shop.db.write() as c:
        undrop(c, "shop", "dropped", ["other"])
    again = shop.db.t.mark
    shop.mark("dropped", NewMark(id="dropped-0", vault="disk", keys=tuple(f"d/{n}" for n in range(100)), bytes=1_000))
    with shop.db.write() as c:
        c.execute(update(again).where(again.c.id == "dropped-0").values(marked_at=kind_plan(plan, "dropped").oldest))

    shop.begin_apply(plan.id)

    assert shop.rounds.plans.approvals.state(plan.id) == "APPLYING"


def test_the_checksum_of_ages_is_equal_on_both_databases(shop: Limited) -> None:
    mark = shop.db.t.mark
    with shop.db.write() as c:
        c.execute(update(mark).values(marked_at=1_700_000_000_123))

    assert kind_plan(shop.plan_as_operator(), "dropped").ages == 30 * (1_700_000_000_123 % (2**31 - 1))
