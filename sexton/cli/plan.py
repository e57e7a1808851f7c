"""`sexton plan`, `sexton apply`: see what would go, then let exactly that go."""

from typing import Annotated

import typer

from sexton.cli.context import Json, controls, one_instance, opened
from sexton.cli.output import counts, dump, show, size, stamp
from sexton.cli.report import end
from sexton.recycle.model import Plan, RecycleRequest


def plan(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None, as_json: Json = False
) -> None:
    """Store and print what a round would delete now. Exit code 0: nothing to do, 2: something.

    Example: sexton plan shop
    """
    from sexton.holds import HoldStore
    from sexton.recycle.plans import PlanStore
    from sexton.registry.store import Registry

    with opened() as (settings, db):
        name = one_instance(db, instance)
        made = PlanStore(db).plan(name, settings.policy(), "cli")
        observes = Registry(db).instance(name).mode == "observe"
        with db.read() as c:
            halt = controls(settings, db).halt(c, name)
        holds = HoldStore(db).active(name)
    if as_json:
        dump(made.model_dump(mode="json"))
    else:
        _print(made, observes)
        for held in holds:
            typer.echo(f"hold {held.id} keeps {held.what}; the numbers above do not know it")
        if halt is not None:
            typer.echo(f"nothing of it goes now: {halt}")
    if made.marks or made.claimed:
        raise typer.Exit(2)


def apply(
    plan: Annotated[int, typer.Argument(help="The plan's number.", min=1, max=2**63 - 1)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete exactly what a stored plan says; print the report.

    Marks as of the plan's cutoff, no younger ones.

    Ctrl-C stops waiting, not the round. Exit code 0: what could go went, 1: something failed, waits, or a vault
    or the owner could not be asked.

    Example: sexton apply 7
    """
    from sexton.cli.running import run_round
    from sexton.control.port import NotEnabled
    from sexton.recycle.plans import PlanStore
    from sexton.recycle.port import PlanRefused
    from sexton.registry.store import Registry

    with opened() as (settings, db):
        found = PlanStore(db).find_plan(plan)
        of = found.instance
        if (state := PlanStore(db).state(plan)) != "PLANNED":
            raise PlanRefused(f"plan {plan} is not an open plan of {of}: {state}; make a new one: sexton plan {of}")
        if Registry(db).instance(of).mode == "observe":
            raise NotEnabled(f"{of} only observes; run: sexton enable {of}")
        controls(settings, db).admit(of)  # the round asks again; here it is asked before anybody says yes
        if not as_json:
            _print(found, observes=False)
        if not yes:
            typer.confirm(f"delete these files of {of} for good?", abort=True, err=True)
        request = RecycleRequest(instance=of, plan=plan, requested_by="cli")
        report = run_round(settings, db, request, watch=not as_json)
    end(report, as_json)


def _print(plan: Plan, observes: bool) -> None:
    rows = [(k.kind, k.marks, k.keys, k.prefixes, size(k.bytes), stamp(k.oldest), stamp(k.cutoff)) for k in plan.kinds]
    typer.echo(f"plan {plan.id} of {plan.instance}, policy {plan.policy.version}")
    show("", ("kind", "marks", "keys", "prefixes", "bytes*", "oldest (UTC)", "before (UTC)"), rows)
    if rows:
        typer.echo("* by the owner's word; marks of that kind that are older than `before` go")
    typer.echo(f"kept: {counts(plan.held)}")
    if plan.claimed:
        typer.echo(f"claimed by earlier rounds and finished first: {plan.claimed}")
    if plan.marks:
        typer.echo("an upper bound: vaults, holds, and what the owner shows as live, are asked when it is applied")
    if not plan.marks:
        typer.echo("nothing new is due")
    elif observes:
        typer.echo(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        typer.echo(f"to delete exactly this: sexton apply {plan.id}")
