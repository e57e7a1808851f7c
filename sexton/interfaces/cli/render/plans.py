"""Print plans."""

from collections import Counter
from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import UNANSWERED, human_bytes, kept_counts, quantity, utc, utc_column
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.marks import MARK_COLUMNS, mark_row
from sexton.kernel.printable import printable
from sexton.marks.keepers import by_hold
from sexton.recycle.planning.estimate import Estimate
from sexton.recycle.planning.model import KindPlan, Plan

if TYPE_CHECKING:
    from sexton.insight.plan_review import PlanDetails, PlanReview
    from sexton.operations.plans import Plans
    from sexton.recycle.planning.model import PlanRow


def show_plan(plan: Plan, cost: Estimate) -> None:
    """Print the contents of a plan, what waits for approval, and its cost."""
    number = plan.id or "(empty, not stored)"
    typer.echo(f"plan {number} of {plan.instance}, policy {plan.policy.version}")
    columns = ("kind", "marks", "keys", "prefixes", "objects", "bytes*", "oldest (UTC)", "after (UTC)", "before (UTC)")
    show_table("", columns, [_kind_row(k) for k in plan.kinds])
    if plan.kinds:
        typer.echo("* as reported by the owner; marks of the kind that are older than `before` are deleted")
        typer.echo(_cost(cost))
    _show_kept(plan)
    if plan.claimed:
        typer.echo(f"claimed by earlier rounds and finished first: {plan.claimed}")
    for k in plan.kinds:
        if k.awaits:
            typer.echo(f"not deleted without approval: {printable(k.awaits)}")
    if plan.note:
        typer.echo(f"note: {printable(plan.note)}")
    if any(k.estimated for k in plan.kinds):
        count = f"to list them: sexton plan {plan.instance} --count"
        typer.echo(f"~ is an estimate, which may be far too low: no listing has counted the prefixes; {count}")
    if plan.marks:
        typer.echo("these marks at most: vaults, holds, protections and live objects are checked when it is applied")


def _show_kept(plan: Plan) -> None:
    """Print what the plan leaves out, and what it leaves out only for as long as holds block it."""
    keep_counts = Counter(plan.kept)
    for held in (held for kind in plan.kinds for held in kind.held):
        keep_counts[by_hold(held.hold)] += held.marks
    if keep_counts:
        typer.echo(f"kept: {kept_counts(keep_counts)}")
    if plan.held.marks:
        typer.echo(
            f"at most {quantity(plan.objects, 'object')}: {plan.held.objects:,} of them, in "
            f"{quantity(plan.held.marks, 'mark')}, were held when it was made, and are deleted, too, if the holds end"
        )


def show_review(review: "PlanReview") -> None:
    """Print a stored plan: its state, its numbers as they were then, what blocks it now, and samples of its marks."""
    row, plan = review.row, review.plan
    answer = f", answered {utc(row.approved_at)} by {row.approved_by}" if row.approved_at else ""
    typer.echo(f"{row.state}, made {utc(row.created_at)} by {printable(row.planned_by)}{printable(answer)}")
    show_plan(plan, review.estimate)
    for hold in review.holds:
        typer.echo(f"{hold.kept} blocks {printable(hold.what)} until {utc(hold.expires_at)}")
    if review.observes:
        typer.echo(f"{plan.instance} only observes: sexton enable {plan.instance}")
    if review.halt:
        typer.echo(f"nothing can be deleted now: {printable(review.halt)}")
    if review.marks:
        typer.echo("\nthe first marks of each kind that are due now:")
        show_table("", MARK_COLUMNS, [mark_row(mark) for mark in review.marks])
        typer.echo(f"all of them: sexton plan marks {plan.id}; those under a prefix: --under PREFIX")
    elif plan.kinds:
        typer.echo("no mark of it is due now: they were undropped, claimed, deleted or quarantined")


def show_details(details: "PlanDetails") -> None:
    """Print a new plan, what to do next, and what blocks it."""
    plan = details.plan
    show_plan(plan, details.estimate)
    if not plan.marks:
        later = f"the next mark ({details.next_kind}) is due at {utc(details.next_due_at)}"
        typer.echo(f"nothing new is due; {later if details.next_due_at is not None else 'no mark waits'}")
    elif not sum(k.unheld.marks for k in plan.kinds):
        typer.echo(f"holds block everything that is due; see: sexton blockers {plan.instance}")
    elif details.observes:
        typer.echo(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        typer.echo(f"to delete exactly this: sexton apply {plan.id}")
    for hold in details.holds:
        typer.echo(f"{hold.kept} blocks {printable(hold.what)}")
    if details.halt:
        typer.echo(f"nothing can be deleted now: {printable(details.halt)}")


def show_plans(page: "Plans") -> None:
    """Print plans as a list, and why plans wait for approval."""
    rows = page.items
    columns = ("plan", "instance", "state", "made (UTC)", "by", "has", "expires (UTC)", "answered (UTC)")
    show_table(
        "" if rows else "no plan was made yet; make one: sexton plan new INSTANCE", columns, [_row(p) for p in rows]
    )
    for p in rows:
        if p.state == "REJECTED":
            typer.echo(f"plan {p.id} was {p.awaits}")
        if p.state == "AWAITING_APPROVAL":
            typer.echo(f"plan {p.id} waits for approval since {utc_column(p.since)} UTC: {p.awaits}")
            typer.echo(f"  unanswered, {UNANSWERED} is deleted")


def _kind_row(kind: KindPlan) -> tuple[object, ...]:
    sums = kind.unheld
    objects = f"~{sums.objects:,}" if kind.estimated else f"{sums.objects:,}"
    times = (utc_column(kind.oldest), utc_column(kind.since or None), utc_column(kind.cutoff))
    return kind.kind, sums.marks, sums.keys, sums.prefixes, objects, human_bytes(sums.bytes), *times


def _row(p: "PlanRow") -> tuple[object, ...]:
    answer = f"{utc_column(p.approved_at)} by {p.approved_by}" if p.approved_at else "-"
    kinds = ", ".join(p.kinds) or "nothing"
    if p.held_marks:
        kinds += f"; {p.held_marks:,} more held"
    times = (utc_column(p.expires_at), answer)
    return p.id, p.instance, p.state, utc_column(p.created_at), p.planned_by, kinds, *times


def _cost(cost: Estimate) -> str:
    minutes = "less than a minute" if cost.minutes < 1 else f"~{cost.minutes:,.0f} minutes"
    rate = "less than 1" if cost.keys_per_second < 1 else f"{cost.keys_per_second:,.0f}"
    return (
        f"about {quantity(cost.objects, 'object')}: {cost.delete_requests:,} DELETE and "
        f"{cost.list_requests:,} LIST requests, "
        f"~{cost.money:,.2f} {cost.currency}, {minutes} at {rate} objects/s"
    )
