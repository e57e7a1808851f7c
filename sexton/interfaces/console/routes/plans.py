"""What will be deleted: plans, their approval and their rejection."""

import shlex
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from sexton.insight.wording import UNANSWERED
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.kernel.errors import BadInput
from sexton.operations.fields import Before
from sexton.operators.access.model import Grant
from sexton.recycle.planning.model import Plan, PlanState

Under = Annotated[str | None, Query(max_length=1_024)]
After = Annotated[str, Query(max_length=2_048)]
SHOWN = 20
OPEN = (PlanState.PLANNED, PlanState.AWAITING)


@pages.get("/plans")
def plans(visit: CurrentVisit, after: Before = None) -> Response:
    """Show the plans of an instance, or of all, and each that awaits approval."""
    listed = visit.ask("plan list", instance=visit.scope, after=after, limit=SHOWN)
    return visit.about("plans", "sexton plan list", plans=listed.items, following=listed.next)


@pages.post("/plans")
def plan(visit: CurrentVisit) -> Response:
    """Make a plan of everything that is due now."""
    made = visit.ask("plan new")
    if not made.plan.id:
        return visit.done(f"Nothing is due in {visit.instance} now, so there is no plan.", "plans")
    return visit.done(
        f"Plan {made.plan.id} was made. It deletes nothing before it is applied.", f"plans/{made.plan.id}"
    )


@pages.get("/plans/{plan}")
def show(visit: CurrentVisit, plan: int, under: Under = None, after: After = "") -> Response:
    """Show one plan, what blocks it now, and marks that are due by it: the first ones, or those under a prefix."""
    review = visit.ask("plan show", plan=plan)
    instance, cli = review.plan.instance, f"sexton plan show {plan}"
    marks, following, sampled = review.marks, "", under is None and not after
    if not sampled:
        page = visit.ask("plan marks", plan=plan, under=under or "", after=after, limit=SHOWN)
        marks, following = page.items, page.next
        cli = f"sexton plan marks {plan}" + (f" --under {shlex.quote(under)}" if under else "")
    return visit.show(
        "plan.html",
        "plans",
        cli=cli,
        instance=instance,
        review=review,
        marks=marks,
        following=following,
        under=under or "",
        sampled=sampled,
        unanswered=UNANSWERED,
        objects=review.plan.objects,
        estimated=is_estimated(review.plan),
        typed=number_to_type(review.plan),
        exceeds_a_limit=exceeds_a_limit(review.plan),
        is_open=review.row.state in OPEN,
        may_operate=visit.caller.permits(Grant.OPERATE, instance),
    )


@pages.post("/plans/{plan}/apply")
def apply(visit: CurrentVisit, plan: int) -> Response:
    """Start the round that deletes what a plan lists. One that exceeds a limit needs its number, typed."""
    details = visit.ask("plan show", plan=plan)
    number = number_to_type(details.plan)
    typed = visit.form.get("objects", "").replace(",", "").replace(" ", "")
    if exceeds_a_limit(details.plan) and typed != str(number):
        given = f"{typed[:20]} was typed" if typed else "no number was typed"
        what = f"all that {number:,} marks name" if is_estimated(details.plan) else f"{number:,} objects"
        raise BadInput(f"plan {plan} deletes {what}, and {given}; type that number to apply it")
    visit.ask("apply", plan=plan)
    return visit.done(f"The round that applies plan {plan} was started.", "rounds")


def is_estimated(plan: Plan) -> bool:
    """Return whether no listing has counted some of a plan's prefixes: it may delete many more objects than it says."""
    return any(kind.estimated for kind in plan.kinds)


def number_to_type(plan: Plan) -> int:
    """Return the number that an operator types to apply a large plan: that of its objects, or marks, if it is known."""
    return plan.marks if is_estimated(plan) else plan.objects


def exceeds_a_limit(plan: Plan) -> bool:
    """Return whether no round would delete all of a plan without an answer of an operator."""
    return bool(plan.awaits) or any(kind.awaits for kind in plan.kinds)
