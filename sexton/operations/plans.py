"""Plans: what a round would delete, and the round that deletes exactly that."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from sexton.insight.marks import MarkFilter, PlanDetails, PlanReview
from sexton.insight.views import MarkPage
from sexton.kernel.message import Page
from sexton.operations.fields import (
    MAX_NUMBER,
    Before,
    Covered,
    Flag,
    Instance,
    Limit,
    Reason,
    Remark,
    StartedWork,
    Whole,
    page,
)
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.operators.controls.model import NotEnabled
from sexton.recycle.planning.model import Plan, PlanRow, PlanState
from sexton.recycle.rounds.model import RecycleRequest

SAMPLE_MARKS = 10
"""How many marks of each kind a review has."""
PlanNumber = Annotated[Whole, Flag(shown="PLAN"), Field(ge=1, le=MAX_NUMBER, description="The plan's number.")]
Kind = Annotated[str, Field(max_length=64, description="Only marks of this kind.")]
Under = Annotated[
    str,
    Flag(shown="PREFIX"),
    Field(max_length=1_024, description="Only marks with a key or prefix under it, or whose prefix covers it."),
]
Place = Annotated[
    str, Flag(shown="PLACE"), Field(max_length=2_048, description="The place at which the page before ended.")
]
Size = Annotated[int, Flag("--limit"), Field(ge=1, le=1_000, description="How many.")]


def instance_of(call: Call, plan: int, **_: object) -> str:
    """Return the instance of a plan."""
    return call.stores.plans.find_plan(plan).instance


OF_PLAN = Logged("{plan}", of=instance_of, once=True)
READS_PLAN = Logged("{plan}", changes=False, of=instance_of)


@operation("plan new", "POST /v1/instances/{instance}/plans", Grant.OPERATE, Logged(once=True))
def plan(
    call: Call,
    instance: Instance,
    *,
    count: Annotated[bool, Field(description="List the prefixes, instead of estimating.")] = False,
) -> PlanDetails:
    """Store and print what a round would delete now. Exit code 0: nothing to do, 2: something to do.

    The plan contains everything that is due; what holds block is not in its numbers. Objects under a prefix are
    estimated (~) until `--count` lists them. Without anything to do no plan is stored. It also shows what no round
    deletes without approval: deletions over a limit of 24 hours, and marks that are due only because a retention was
    shortened. Applying the plan approves it. `sexton plan shop` does the same.

    Example: sexton plan new shop
    """
    return call.deployment.plan(instance, call.by, count=count)


@operation("plan list", "GET /v1/instances/{instance}/plans", Grant.READ, READS)
def plans(call: Call, instance: Covered = None, *, after: Before = None, limit: Limit = 20) -> Page[PlanRow]:
    """Print stored plans and their states.

    The newest come first, and every older one that waits for approval with them. A plan that waits for approval is
    AWAITING_APPROVAL for 24 hours; then a new plan replaces it. A plan that waits only for the limit of 24 hours is
    deleted without approval once it fits the limit: `plan reject` prevents that.

    Example: sexton plan list shop
    """
    rows = call.stores.plans.approvals.plans(instance, limit + 1, before=after)
    older = [row for row in rows[limit:] if row.state == PlanState.AWAITING]
    return Page[PlanRow](**page(rows, limit) | {"items": (*rows[:limit], *older)})  # perhaps only such follow


@operation("plan show", "GET /v1/plans/{plan}", Grant.READ, READS_PLAN)
def plan_review(call: Call, plan: PlanNumber) -> PlanReview:
    """Print one stored plan: its numbers, its state, what blocks it now, and the first marks of each kind.

    The numbers and cutoffs are those of the instant at which it was made. The marks are those that are due now, up to
    its cutoffs, with the parent that each names.

    Example: sexton plan show 7
    """
    return call.deployment.plan_review(plan, SAMPLE_MARKS)


@operation("plan marks", "GET /v1/plans/{plan}/marks", Grant.READ, READS_PLAN)
def plan_marks(
    call: Call, plan: PlanNumber, *, kind: Kind = "", under: Under = "", limit: Size = 100, after: Place = ""
) -> MarkPage:
    """Print the marks of a plan that are due now, in the order in which they became due.

    Where the owner names the files of a mark, the mark has no keys to search: sexton why KEY.

    Example: sexton plan marks 7 --under data/orders/
    """
    instance = call.stores.plans.find_plan(plan).instance
    which = MarkFilter(instance, kind, under=call.deployment.places_of(instance, under))
    return call.deployment.marks_of_plan(plan, which, after, limit)


@operation("plan reject", "POST /v1/plans/{plan}/reject", Grant.OPERATE, OF_PLAN)
def reject(call: Call, plan: PlanNumber, *, reason: Reason) -> PlanRow:
    """Reject a plan that waits for approval.

    Its kinds need approval for 7 days, or until a later plan with them is applied.

    Example: sexton plan reject 7 --reason 'the drop of orders was a mistake'
    """
    return call.stores.plans.approvals.reject(plan, reason, call.by)


@operation("apply", "POST /v1/plans/{plan}/apply", Grant.OPERATE, replace(OF_PLAN, asks=True))
def apply(call: Call, plan: PlanNumber, *, reason: Remark = "") -> StartedWork:
    """Delete exactly what a stored plan contains; print the report.

    Only marks up to the plan's cutoff are deleted. The plan is refused when it is out of date: marks were undropped or
    deleted, settings changed, or the plan is more than 24 hours old. Applying a plan approves it: no
    limit applies to it.

    Ctrl-C stops waiting, not the round. Exit code 0: everything that could be deleted was deleted, 1: a deletion failed
    or waits, or a vault or the owner could not be reached.

    Example: sexton apply 7
    """
    instance = check_apply(call, plan).instance
    with call.stores.plans.approvals.approving(plan, instance, call.by):
        return call.start(RecycleRequest(instance=instance, plan=plan, requested_by=call.by))


def check_apply(call: Call, plan: int) -> Plan:
    """Return a plan that may be applied now; the round makes these checks again."""
    stored = call.stores.plans.find_plan(plan)
    if call.stores.registry.instance(stored.instance).mode == "observe":
        raise NotEnabled(f"{stored.instance} only observes; run: sexton enable {stored.instance}")
    call.stores.plans.approvals.check_apply(plan, stored.instance, call.deployment.policy(stored.instance))
    call.stores.controls.admit(stored.instance)
    return stored
