"""`sexton plan`, `sexton apply`: see what would go, then let exactly that go."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, controls, one_instance, opened, recorded
from sexton.interfaces.cli.output import dump
from sexton.interfaces.cli.render.plans import show_plan, show_plans
from sexton.interfaces.cli.render.report import end
from sexton.recycle.model import Plan, RecycleRequest


def plan(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None,
    as_list: Annotated[bool, typer.Option("--list", help="Make none; list those that were made.")] = False,
    last: Annotated[int, typer.Option(help="With --list: how many, newest first.", min=1, max=1_000)] = 20,
    reject: Annotated[
        int | None, typer.Option(metavar="PLAN", help="Refuse a plan that waits for somebody.", min=1, max=2**63 - 1)
    ] = None,
    reason: Annotated[str, typer.Option(help="With --reject: why.")] = "",
    as_json: Json = False,
) -> None:
    """Store and print what a round would delete now. Exit code 0: nothing to do, 2: something.

    It has everything that is due, and names what no round would do unasked: what is over a limit of 24 hours, or due
    only because a retention was shortened. Whoever applies it has approved it.

    `--list` shows plans and what became of them; one that waits for somebody is AWAITING_APPROVAL for 24 hours, and is
    then made anew. What waits only for the limit of 24 hours goes unasked once it fits: `--reject` keeps the kinds of a
    plan that waits from going unasked for 7 days, or until a later plan with them is applied.

    Example: sexton plan shop
    """
    from sexton.interfaces.operator_service import OperatorService

    if reject is not None:
        return _reject(reject, reason, as_json)
    if reason:
        raise WrongUsage("--reason goes with --reject PLAN")
    if as_list:
        return _list(instance, last, as_json)
    with opened() as (settings, db):
        name = one_instance(db, instance)
        planned = OperatorService(settings, db).plan(name, "cli")
    made = planned.plan
    if as_json:
        dump(made.model_dump(mode="json") | {"estimate": planned.cost.model_dump()})
    else:
        show_plan(made, planned.cost)
        _todo(made, planned.observes)
        for held in planned.holds:
            typer.echo(f"hold {held.id} keeps {held.what}; the numbers above do not know it")
        if planned.halt is not None:
            typer.echo(f"nothing of it goes now: {planned.halt}")
    if made.marks or made.claimed:
        raise typer.Exit(2)


def apply(
    plan: Annotated[int, typer.Argument(help="The plan's number.", min=1, max=2**63 - 1)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete exactly what a stored plan says; print the report.

    Marks as of the plan's cutoff, no younger ones. It is refused when the world is not as it was: marks were taken
    back or went, settings changed, or, where it waited for somebody, for more than 24 hours. Applying a plan is
    approving it: no limit holds for it.

    Ctrl-C stops waiting, not the round. Exit code 0: what could go went, 1: something failed, waits, or a vault
    or the owner could not be asked.

    Example: sexton apply 7
    """
    from sexton.interfaces.cli.running import run_round
    from sexton.interfaces.operator_service import OperatorService
    from sexton.operators.controls.port import NotEnabled
    from sexton.operators.controls.store import whoami
    from sexton.operators.registry.store import Registry
    from sexton.recycle.planning.sql.plans import PlanStore

    with opened() as (settings, db):
        store = PlanStore(db)
        found = store.find_plan(plan)
        of = found.instance
        if Registry(db).instance(of).mode == "observe":
            raise NotEnabled(f"{of} only observes; run: sexton enable {of}")
        store.approvals.check_apply(plan, of, settings.policy())  # the round asks this again, and the next line
        controls(settings, db).admit(of)  # here they are asked before anybody says yes
        if not as_json:
            show_plan(found, OperatorService(settings, db).cost(found))
        if not yes:
            if as_json:
                raise WrongUsage("with --json nobody sees what is asked; look at the plan, then add --yes")
            typer.confirm(f"delete these files of {of} for good?", abort=True, err=True)
        request = RecycleRequest(instance=of, plan=plan, requested_by=whoami())
        with recorded(db, "apply", of, str(plan)):
            report = run_round(settings, db, request, watch=not as_json)
    end(report, as_json)


def _list(instance: str | None, last: int, as_json: bool) -> None:
    from sexton.operators.registry.store import Registry
    from sexton.recycle.planning.sql.plans import PlanStore

    with opened() as (_, db):
        if instance is not None:
            Registry(db).instance(instance)
        found = PlanStore(db).approvals.plans(instance, last)
    if as_json:
        dump([p.model_dump(mode="json") for p in found])
    else:
        show_plans(found)


def _reject(plan: int, reason: str, as_json: bool) -> None:
    from sexton.operators.controls.store import whoami
    from sexton.recycle.planning.sql.plans import PlanStore

    with opened() as (_, db), recorded(db, "plan reject", subject=str(plan), reason=reason):
        row = PlanStore(db).approvals.reject(plan, reason, whoami())
    if as_json:
        dump(row.model_dump(mode="json"))
        return
    typer.echo(f"plan {plan} of {row.instance} is rejected: {', '.join(row.kinds)}")
    keep = f"sexton hold mark KIND/ID --instance {row.instance} --for 7d --reason TEXT"
    typer.echo(f"a mark is taken back by its owner's undrop, or kept by: {keep}")
    typer.echo("these kinds go unasked again in 7 days, or when a later plan with them is applied")


def _todo(plan: Plan, observes: bool) -> None:
    if not plan.marks:
        typer.echo("nothing new is due")
    elif observes:
        typer.echo(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        typer.echo(f"to delete exactly this: sexton apply {plan.id}")
