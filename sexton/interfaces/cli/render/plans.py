"""How plans are printed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.output import counts, show, size, stamp
from sexton.recycle.model import Plan
from sexton.recycle.planning.estimate import Estimate

if TYPE_CHECKING:
    from sexton.recycle.planning.model import PlanRow


def show_plan(plan: Plan, cost: Estimate) -> None:
    """Print what a plan has, what it waits for, what it costs."""
    typer.echo(f"plan {plan.id} of {plan.instance}, policy {plan.policy.version}")
    rows = [
        (k.kind, k.marks, k.keys, k.prefixes, _about(k.objects, k.estimated), size(k.bytes), *_span(k))
        for k in plan.kinds
    ]
    columns = ("kind", "marks", "keys", "prefixes", "objects", "bytes*", "oldest (UTC)", "after (UTC)", "before (UTC)")
    show("", columns, rows)
    if rows:
        typer.echo("* by the owner's word; marks of that kind that are older than `before` go")
        typer.echo(_cost(cost))
    typer.echo(f"kept: {counts(plan.kept)}")
    if plan.claimed:
        typer.echo(f"claimed by earlier rounds and finished first: {plan.claimed}")
    for k in plan.kinds:
        if k.awaits:
            typer.echo(f"no round does this unasked: {k.awaits}")
    if plan.marks:
        typer.echo("an upper bound: vaults, holds, and what the owner shows as live, are asked when it is applied")


def show_plans(rows: "Sequence[PlanRow]") -> None:
    """Print plans as a list, and what those that wait are waiting for."""
    columns = ("plan", "instance", "state", "made (UTC)", "by", "has", "expires (UTC)", "answered (UTC)")
    table = [
        (p.id, p.instance, p.state, stamp(p.created_at), p.planned_by, ", ".join(p.kinds) or "nothing", *_answer(p))
        for p in rows
    ]
    show("" if rows else "no plan was made yet; make one: sexton plan INSTANCE", columns, table)
    for p in rows:
        if p.state == "REJECTED":
            typer.echo(f"plan {p.id} was {p.awaits}")
        if p.state == "AWAITING_APPROVAL":
            typer.echo(f"plan {p.id} waits for somebody since {stamp(p.since)} UTC: {p.awaits}")
            typer.echo("  unanswered, it goes once it fits into the limit of 24 hours, or falls due by what was agreed")


def _answer(p: "PlanRow") -> tuple[str, str]:
    return stamp(p.expires_at), f"{stamp(p.approved_at)} by {p.approved_by}" if p.approved_at else "-"


def _about(count: int, estimated: bool) -> str:
    return f"~{count:,}" if estimated else f"{count:,}"


def _span(kind: object) -> tuple[str, str, str]:
    oldest, since, cutoff = (getattr(kind, n) for n in ("oldest", "since", "cutoff"))
    return stamp(oldest), stamp(since or None), stamp(cutoff)


def _cost(c: Estimate) -> str:
    minutes = "less than a minute" if c.minutes < 1 else f"~{c.minutes:,.0f} minutes"
    return (
        f"about {c.objects:,} objects: {c.delete_requests:,} DELETE and {c.list_requests:,} LIST requests, "
        f"~{c.money:,.2f} {c.currency}, {minutes} at {c.keys_per_second:,.0f} objects/s"
    )
