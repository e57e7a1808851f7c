"""`sexton plan …`, `sexton apply`: show what a round would delete, then delete exactly that."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WhyOption, WrongUsage, log_call, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, emit_list, stable, wants_json
from sexton.interfaces.cli.render.marks import show_page
from sexton.interfaces.cli.render.plans import show_plan, show_plans, show_review
from sexton.interfaces.cli.render.report import end
from sexton.interfaces.wording import utc
from sexton.kernel.printable import printable
from sexton.recycle.planning.model import Plan, PlanState
from sexton.recycle.rounds.model import RecycleRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sexton.interfaces.operator_service import OperatorService, PlanPreview
    from sexton.operators.holds.model import Hold

app = typer.Typer(help="Plans: what a round would delete. `sexton plan [INSTANCE]` makes a new one.")
PlanNumber = Annotated[int, typer.Argument(metavar="PLAN", help="The plan's number.", min=1, max=2**63 - 1)]
InstanceArgument = Annotated[str | None, typer.Argument(metavar="[INSTANCE]", help="Default: the only instance.")]
SAMPLE_MARKS = 10
"""How many marks of each kind `plan show` prints."""


@app.command("new")
def new(
    instance: InstanceArgument = None,
    count: Annotated[bool, typer.Option("--count", help="List the prefixes, instead of estimating.")] = False,
) -> None:
    """Store and print what a round would delete now. Exit code 0: nothing to do, 2: something to do.

    The plan contains everything that is due; what holds block is not in its numbers. Objects under a prefix are
    estimated (~) until `--count` lists them. Without anything to do no plan is stored. It also shows what no round
    deletes without approval: deletions over a limit of 24 hours, and marks that are due only because a retention was
    shortened. Applying the plan approves it. `sexton plan shop` does the same.

    Example: sexton plan new shop
    """
    with open_database() as service:
        name = one_instance(service, instance)
        with log_call(service, "plan", name):
            preview = service.plan(name, "cli", count=count)
    stored_plan = preview.plan
    if wants_json():
        emit(stored_plan, estimate=stable(preview.cost))
    else:
        show_plan(stored_plan, preview.cost)
        _show_next_step(stored_plan, preview)
        _show_holds(preview.holds)
        if preview.halt is not None:
            typer.echo(f"nothing can be deleted now: {printable(str(preview.halt))}")
    if stored_plan.marks or stored_plan.claimed:
        raise typer.Exit(2)


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(metavar="[INSTANCE]", help="Only this instance's.")] = None,
    last: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1_000)] = 20,
) -> None:
    """Print stored plans and their states.

    A plan that waits for approval is AWAITING_APPROVAL for 24 hours; then a new plan replaces it. A plan that waits
    only for the limit of 24 hours is deleted without approval once it fits the limit: `plan reject` prevents that.

    Example: sexton plan list shop
    """
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        plans = service.stores.plans.approvals.plans(instance, last + 1)
    older = plans[last:]  # those that await approval are listed, however old they are
    shown = [*plans[:last], *(plan for plan in older if plan.state == PlanState.AWAITING)]
    if wants_json():
        emit_list(shown, more=len(plans) > len(shown))
    else:
        show_plans(shown)


@app.command("show")
def show(plan: PlanNumber) -> None:
    """Print one stored plan: its numbers, its state, what blocks it now, and the first marks of each kind.

    The numbers and cutoffs are those of the instant at which it was made. The marks are those that are due now, up to
    its cutoffs, with the parent that each names.

    Example: sexton plan show 7
    """
    with open_database() as service:
        review = service.plan_review(plan, SAMPLE_MARKS)
    if wants_json():
        emit(review)
    else:
        show_review(review)


@app.command("marks")
def marks(
    plan: PlanNumber,
    kind: Annotated[str, typer.Option(help="Only marks of this kind.")] = "",
    under: Annotated[
        str, typer.Option(metavar="PREFIX", help="Only marks with a key or prefix under it, or whose prefix covers it.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many.")] = 100,
    after: Annotated[str, typer.Option(metavar="PLACE", help="The place at which the page before ended.")] = "",
) -> None:
    """Print the marks of a plan that are due now, in the order in which they became due.

    Where the owner names the files of a mark, the mark has no keys to search: sexton why KEY.

    Example: sexton plan marks 7 --under data/orders/
    """
    from sexton.insight.marks import MarkFilter

    with open_database() as service:
        instance = service.stores.plans.find_plan(plan).instance
        which = MarkFilter(instance, kind, under=service.places_of(instance, under))
        page = service.marks_of_plan(plan, which, after, limit)
    show_page(page, f"plan {plan} has no such mark that is due now")


@app.command("reject")
def reject(plan: PlanNumber, reason: Annotated[str, typer.Option(help="Why.")]) -> None:
    """Reject a plan that waits for approval.

    Its kinds need approval for 7 days, or until a later plan with them is applied.

    Example: sexton plan reject 7 --reason 'the drop of orders was a mistake'
    """
    from sexton.operators.controls.store import whoami

    with (
        open_database() as service,
        log_call(service, "plan reject", _instance_of(service, plan), str(plan), reason),
    ):
        row = service.stores.plans.approvals.reject(plan, reason, whoami())
    if wants_json():
        emit(row)
        return
    typer.echo(f"plan {plan} of {row.instance} is rejected: {', '.join(row.kinds)}")
    hold = f"sexton hold add mark KIND/ID --instance {row.instance} --for 7d --reason TEXT"
    typer.echo(f"to save a mark, let its owner undrop it, or hold it: {hold}")
    typer.echo("rounds delete these kinds without approval again in 7 days, or when a later plan with them is applied")


def apply(
    plan: Annotated[int, typer.Argument(help="The plan's number.", min=1, max=2**63 - 1)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    reason: WhyOption = "",
) -> None:
    """Delete exactly what a stored plan contains; print the report.

    Only marks up to the plan's cutoff are deleted. The plan is refused when it is out of date: marks were undropped or
    deleted, settings changed, or the plan is more than 24 hours old. Applying a plan approves it: no
    limit applies to it.

    Ctrl-C stops waiting, not the round. Exit code 0: everything that could be deleted was deleted, 1: a deletion failed
    or waits, or a vault or the owner could not be reached.

    Example: sexton apply 7
    """
    from sexton.interfaces.cli.running import run_round
    from sexton.operators.controls.port import NotEnabled
    from sexton.operators.controls.store import whoami

    with open_database() as service:
        stored_plan = _find_plan(service, plan)
        instance = stored_plan.instance
        with log_call(service, "apply", instance, str(plan), reason):
            # The round makes these checks again. They are made here so that they fail before the operator confirms.
            if service.stores.registry.instance(instance).mode == "observe":
                raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
            service.stores.plans.approvals.check_apply(plan, instance, service.policy(instance))
            service.stores.controls.admit(instance)
            if not wants_json():
                show_plan(stored_plan, service.cost(stored_plan))
                _show_holds(service.stores.holds.active(instance))
            if not yes:
                _confirm_apply(instance)
            request = RecycleRequest(instance=instance, plan=plan, requested_by=whoami())
            with service.stores.plans.approvals.approving(plan, instance, whoami()) as started:
                report = run_round(service, request, watch=not wants_json(), started=started)
    end(report)


def _find_plan(service: "OperatorService", plan: int) -> Plan:
    """Return a plan that is to be applied; record also that it does not exist."""
    from sexton.recycle.errors import PlanRefused

    try:
        return service.stores.plans.find_plan(plan)
    except PlanRefused:
        with log_call(service, "apply", subject=str(plan)):
            raise


def _instance_of(service: "OperatorService", plan: int) -> str:
    """Return the instance of a plan; empty where there is no such plan."""
    from sexton.recycle.errors import PlanRefused

    try:
        return service.stores.plans.find_plan(plan).instance
    except PlanRefused:
        return ""


def _confirm_apply(instance: str) -> None:
    if wants_json():
        raise WrongUsage("--json cannot ask for confirmation; review the plan, then add --yes")
    typer.confirm(f"Delete these files of {instance} permanently?", abort=True, err=True)


def _show_holds(holds: "Sequence[Hold]") -> None:
    for hold in holds:
        typer.echo(f"{hold.kept} blocks {printable(hold.what)}")


def _show_next_step(plan: Plan, preview: "PlanPreview") -> None:
    if not plan.marks:
        later = (
            f"the next mark ({preview.next_due[1]}) is due at {utc(preview.next_due[0])}" if preview.next_due else ""
        )
        typer.echo(f"nothing new is due; {later or 'no mark waits'}")
    elif not sum(k.unheld.marks for k in plan.kinds):
        typer.echo(f"holds block everything that is due; see: sexton blockers {plan.instance}")
    elif preview.observes:
        typer.echo(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        typer.echo(f"to delete exactly this: sexton apply {plan.id}")
