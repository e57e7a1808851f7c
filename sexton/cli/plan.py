"""`sexton plan`, `sexton apply`, `sexton round run`: see what would go, then let exactly that go."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.context import Json, counts, dump, opened, show, size, when
from sexton.recycle.model import Plan, RecycleRequest, RoundReport

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.db.engine import Database

WORKER_PATIENCE_SECONDS = 5.0
"""After this long without a report the operator hears whether any worker is there."""

rounds = typer.Typer(help="Rounds.", no_args_is_help=True)


def plan(
    instance: Annotated[str | None, typer.Argument(help="Default: the only instance.")] = None, as_json: Json = False
) -> None:
    """Store and print what a round would delete now. Exit code 0: nothing to do, 2: something.

    Example: sexton plan shop
    """
    from sexton.errors import BadInput
    from sexton.recycle.plans import PlanStore
    from sexton.registry.store import Registry

    with opened() as (settings, db):
        if instance is None:
            names = [i.id for i in Registry(db).instances()]
            if len(names) != 1:
                raise BadInput(f"name an instance, one of: {', '.join(names) or '(none registered)'}")
            instance = names[0]
        made = PlanStore(db).plan(instance, settings.policy(), "cli")
        observes = Registry(db).instance(instance).mode == "observe"
    if as_json:
        dump(made.model_dump(mode="json"))
    else:
        _print(made, observes)
    if made.marks or made.claimed:
        raise typer.Exit(2)


def apply(
    plan: Annotated[int, typer.Argument(help="The plan's number.", min=1, max=2**63 - 1)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete exactly what a stored plan says, marks as of its cutoff, and print the round's report.

    Ctrl-C stops waiting, not the round. Exit code 0: what could go went, 1: something failed, waits, or a vault
    or the owner could not be asked.

    Example: sexton apply 7
    """
    from sexton.recycle.plans import PlanStore
    from sexton.recycle.port import NotEnabled
    from sexton.registry.store import Registry

    with opened() as (settings, db):
        found = PlanStore(db).find_plan(plan)
        if Registry(db).instance(found.instance).mode == "observe":
            raise NotEnabled(f"{found.instance} only observes; run: sexton enable {found.instance}")
        if not as_json:
            _print(found, observes=False)
        if not yes:
            typer.confirm(f"delete these files of {found.instance} for good?", abort=True, err=True)
        request = RecycleRequest(instance=found.instance, plan=plan, requested_by="cli")
        _report(_round(settings, db, request), as_json)


@rounds.command("run")
def run(instance: Annotated[str, typer.Argument(help="The instance.")], as_json: Json = False) -> None:
    """Start one round now, with a plan of its own, and print its report. An observing instance deletes nothing.

    Example: sexton round run shop
    """
    with opened() as (settings, db):
        from sexton.registry.store import Registry

        Registry(db).instance(instance)
        _report(_round(settings, db, RecycleRequest(instance=instance, requested_by="cli")), as_json)


@rounds.callback()
def _group() -> None:
    """Keep `run` a subcommand although it is the only one."""


def _round(settings: "Settings", db: "Database", request: RecycleRequest) -> RoundReport:
    """Run a round and return its report; that of a failed round comes from where it is stored."""
    from sexton.recycle.reports import Reports

    ended = asyncio.run(_run(settings, request))
    return ended if isinstance(ended, RoundReport) else Reports(db).report(ended)


async def _run(settings: "Settings", request: RecycleRequest) -> RoundReport | int:
    """Start the workflow and wait for its report, or for the number of the round that failed."""
    from temporalio.client import WorkflowFailureError
    from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError
    from temporalio.service import RPCError

    from sexton.errors import SextonError
    from sexton.temporal.client import connect, taken
    from workflows import ids

    deployment = settings.require_deployment()
    name = ids.recycle(deployment, request.instance)
    client = await connect(settings)
    try:
        handle = await client.start_workflow(
            ids.RECYCLE, request, id=name, task_queue=ids.control_queue(deployment), result_type=RoundReport
        )
    except WorkflowAlreadyStartedError as e:
        raise SextonError(f"a round of {request.instance} is running already; see: sexton status") from e
    except RPCError as e:
        raise SextonError(f"Temporal refused the round: {e.message}") from e
    try:
        waiting = asyncio.ensure_future(handle.result())
        done, _ = await asyncio.wait({waiting}, timeout=WORKER_PATIENCE_SECONDS)
        if not done and not await taken(handle):
            typer.echo("no worker has taken the round yet; see doctor, or start one: python -m worker", err=True)
        report: RoundReport = await waiting
        return report
    except WorkflowFailureError as e:
        cause: BaseException | None = e.cause
        if isinstance(cause, ApplicationError) and cause.type == ids.ROUND_FAILED:
            return int(cause.details[0])
        if isinstance(cause, ActivityError):
            cause = cause.cause
        raise SextonError(str(getattr(cause, "message", cause) or e)) from e
    except RPCError as e:
        raise SextonError(f"lost Temporal ({e.message}); the round goes on when it is back: sexton status") from e
    except (asyncio.CancelledError, KeyboardInterrupt):
        ui = settings.temporal.ui_url or "Temporal"
        typer.echo(f"the round goes on without us; see: sexton status; to stop it, cancel it in {ui}", err=True)
        raise


def _print(plan: Plan, observes: bool) -> None:
    rows = [(k.kind, k.marks, k.keys, k.prefixes, size(k.bytes), when(k.oldest), when(k.cutoff)) for k in plan.kinds]
    title = f"plan {plan.id} of {plan.instance}, policy {plan.policy.version}"
    show(title, ("kind", "marks", "keys", "prefixes", "bytes (owner's word)", "oldest", "marked before"), rows)
    typer.echo(f"kept: {counts(plan.held)}")
    if plan.claimed:
        typer.echo(f"claimed by earlier rounds and finished first: {plan.claimed}")
    if plan.marks:
        typer.echo("an upper bound: vaults, and what the owner shows as live, are asked when it is applied")
    if not plan.marks:
        typer.echo("nothing new is due")
    elif observes:
        typer.echo(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        typer.echo(f"to delete exactly this: sexton apply {plan.id}")


def _report(report: RoundReport, as_json: bool) -> None:
    if as_json:
        dump(report.model_dump(mode="json"))
    else:
        columns = ("kind", "vault", "claimed", "removed", "deleted", "absent", "hidden", "failed", "bytes", "estimated")
        rows = [
            (*[getattr(t, c) for c in columns[:8]], size(t.bytes_freed), size(t.bytes_estimated))
            for t in report.tallies
        ]
        seen = f"observed only, {report.due} due" if report.observed else f"{report.due} due, {report.claimed} claimed"
        show(f"round {report.round} of {report.instance}: {report.state}, {seen}", columns, rows)
        typer.echo(f"kept: {counts(report.held)}")
        if report.quarantined:
            typer.echo(f"set aside in this round: {report.quarantined}; see: sexton status, sexton why ID")
        if report.waiting:
            typer.echo(f"claimed and not finished: {report.waiting} marks; the next round tries them again")
        if report.error:
            typer.echo(f"error: {report.error}", err=True)
    if report.state != "SUCCEEDED" or report.failed or report.waiting or report.faults:
        raise typer.Exit(1)
