"""Print plans."""

from collections import Counter
from typing import TYPE_CHECKING

from sexton.insight.wording import kept_counts, quantity, utc
from sexton.interfaces.cli.output import say
from sexton.interfaces.cli.render.results import show_rows
from sexton.marks.keepers import by_hold
from sexton.recycle.planning.estimate import Estimate
from sexton.recycle.planning.model import Plan

if TYPE_CHECKING:
    from sexton.insight.marks import PlanDetails, PlanReview


def show_plan(plan: Plan, cost: Estimate) -> None:
    """Print the contents of a plan, what it leaves out, what waits for approval, and its cost."""
    say(f"plan {plan.id or '(empty, not stored)'} of {plan.instance}, policy {plan.policy.version}")
    show_rows(plan.kinds)
    if plan.kinds:
        minutes = "less than a minute" if cost.minutes < 1 else f"~{cost.minutes:,.0f} minutes"
        rate = "less than 1" if cost.keys_per_second < 1 else f"{cost.keys_per_second:,.0f}"
        requests = f"{cost.delete_requests:,} DELETE and {cost.list_requests:,} LIST requests"
        money = f"~{cost.money:,.2f} {cost.currency}"
        say(
            "bytes are as reported by the owner; marks of the kind that are older than `before` are deleted",
            f"about {quantity(cost.objects, 'object')}: {requests}, {money}, {minutes} at {rate} objects/s",
        )
    keep_counts = Counter(plan.kept)
    for held in (held for kind in plan.kinds for held in kind.held):
        keep_counts[by_hold(held.hold)] += held.marks
    say(keep_counts and f"kept: {kept_counts(keep_counts)}")
    if plan.held.marks:  # held only for as long as holds block it
        say(
            f"at most {quantity(plan.objects, 'object')}: {plan.held.objects:,} of them, in "
            f"{quantity(plan.held.marks, 'mark')}, were held when it was made, and are deleted, too, if the holds end"
        )
    say(plan.claimed and f"claimed by earlier rounds and finished first: {plan.claimed}")
    say(*(f"not deleted without approval: {kind.awaits}" for kind in plan.kinds if kind.awaits))
    say(plan.note and f"note: {plan.note}")
    if any(kind.estimated for kind in plan.kinds):
        count = f"to list them: sexton plan {plan.instance} --count"
        say(f"~ is an estimate, which may be far too low: no listing has counted the prefixes; {count}")
    checked = "vaults, holds, protections and live objects are checked when it is applied"
    say(plan.marks and f"these marks at most: {checked}")


def show_review(review: "PlanReview") -> None:
    """Print a stored plan: its state, its numbers as they were then, what blocks it now, and samples of its marks."""
    row, plan = review.row, review.plan
    answer = f", answered {utc(row.approved_at)} by {row.approved_by}" if row.approved_at else ""
    say(f"{row.state}, made {utc(row.created_at)} by {row.planned_by}{answer}")
    show_plan(plan, review.estimate)
    say(
        *(f"{hold.kept} blocks {hold.what} until {utc(hold.expires_at)}" for hold in review.holds),
        review.observes and f"{plan.instance} only observes: sexton enable {plan.instance}",
        review.halt and f"nothing can be deleted now: {review.halt}",
    )
    if review.marks:
        say("the first marks of each kind that are due now:")
        show_rows(review.marks, "plan marks")
        say(f"all of them: sexton plan marks {plan.id}; those under a prefix: --under PREFIX")
    elif plan.kinds:
        say("no mark of it is due now: they were undropped, claimed, deleted or quarantined")


def show_details(details: "PlanDetails") -> None:
    """Print a new plan, what to do next, and what blocks it."""
    plan = details.plan
    show_plan(plan, details.estimate)
    if not plan.marks:
        later = f"the next mark ({details.next_kind}) is due at {utc(details.next_due_at)}"
        say(f"nothing new is due; {later if details.next_due_at is not None else 'no mark waits'}")
    elif not sum(kind.unheld.marks for kind in plan.kinds):
        say(f"holds block everything that is due; see: sexton blockers {plan.instance}")
    elif details.observes:
        say(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        say(f"to delete exactly this: sexton apply {plan.id}")
    say(*(f"{hold.kept} blocks {hold.what}" for hold in details.holds))
    say(details.halt and f"nothing can be deleted now: {details.halt}")
