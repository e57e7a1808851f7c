"""`sexton round`: see rounds, start one, and tell a running one what to do."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, controls, opened, recorded
from sexton.interfaces.cli.output import brief, dump, show, size, stamp, when
from sexton.interfaces.cli.render.report import end, show_report
from sexton.recycle.model import RecycleRequest

if TYPE_CHECKING:
    from sexton.recycle.rounds.sql.reports import RoundRow

app = typer.Typer(help="Rounds.", no_args_is_help=True)
Instance = Annotated[str, typer.Argument(help="The instance.")]
PAGE = "after the page it is deleting now"


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Print the newest rounds.

    Example: sexton round list shop --last 5
    """
    from sexton.operators.registry.store import Registry
    from sexton.recycle.rounds.sql.reports import Reports

    with opened() as (_, db):
        if instance is not None:
            Registry(db).instance(instance)
        found = Reports(db).rounds(instance, last)
    if as_json:
        dump([r.model_dump(mode="json") for r in found])
        return
    rows = []
    for r in found:
        state = r.report.state if r.report else r.state
        what = (r.report.deleted, size(r.report.bytes_freed)) if r.report else ("", "")
        note = (r.report.error or ("observed only" if r.report.observed else "")) if r.report else r.waiting
        rows.append((r.id, r.instance, state, stamp(r.started_at), _took(r), *what, brief(note or "")))
    columns = ("round", "instance", "state", "began (UTC)", "took", "deleted", "freed", "note")
    show("" if rows else "no round yet", columns, rows)


def _took(r: "RoundRow") -> str:
    return f"{(r.ended_at - r.started_at) / 1000:,.0f} s" if r.ended_at is not None else "-"


@app.command("show")
def show_(
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round's number.", min=1, max=2**63 - 1)],
    as_json: Json = False,
) -> None:
    """Print one round's whole report.

    Example: sexton round show 12
    """
    from sexton.recycle.rounds.sql.reports import Reports

    with opened() as (_, db):
        found = Reports(db).round(number)
    if as_json:
        dump(found.model_dump(mode="json"))
        return
    if found.report is not None:
        show_report(found.report)
        return
    typer.echo(f"round {found.id} of {found.instance}: {found.state}, begun {when(found.started_at)}, no report")
    if found.waiting:
        typer.echo(f"it holds no lease since {when(found.waiting_since)}: {found.waiting}")
    elif found.ended_at is not None:
        typer.echo("it was cut off; a later round took over and finished what it had claimed")


@app.command("run")
def run(instance: Instance, as_json: Json = False) -> None:
    """Start one round now, with a plan of its own, and print its report. An observing instance deletes nothing.

    Ctrl-C stops waiting, not the round.

    Example: sexton round run shop
    """
    from sexton.interfaces.cli.running import run_round
    from sexton.operators.registry.store import Registry

    with opened() as (settings, db):
        Registry(db).instance(instance)
        controls(settings, db).admit(instance)
        request = RecycleRequest(instance=instance, requested_by="cli")
        with recorded(db, "round run", instance):
            report = run_round(settings, db, request, watch=not as_json)
    end(report, as_json)


@app.command("cancel")
def cancel(instance: Instance) -> None:
    """End the running round after its page, with a report; what it claimed is finished by the next one.

    Example: sexton round cancel shop
    """
    _tell(instance, "cancel", f"it ends {PAGE}; see: sexton round list {instance}")


@app.command("pause")
def pause(instance: Instance) -> None:
    """Pause the running round after its page; it gives its lease back until `resume`.

    Example: sexton round pause shop
    """
    _tell(instance, "pause", f"it pauses {PAGE}, until: sexton round resume {instance}")


@app.command("resume")
def resume(instance: Instance) -> None:
    """Let a paused round go on where it stopped, under a new lease.

    Example: sexton round resume shop
    """
    _tell(instance, "resume", "it goes on as soon as it has a lease")


@app.command("retry")
def retry(instance: Instance) -> None:
    """Let a round that backs off try its failed kinds now.

    Example: sexton round retry shop
    """
    _tell(instance, "retry", "if it backs off, it tries again now")


def _tell(instance: str, signal: str, then: str) -> None:
    from sexton.interfaces.cli.running import signal_round
    from sexton.operators.registry.store import Registry

    with opened() as (settings, db):
        Registry(db).instance(instance)
        with recorded(db, f"round {signal}", instance):
            workers = signal_round(settings, instance, signal)
    typer.echo(f"the round of {instance} is told to {signal}: {then}")
    if not workers:
        typer.echo("no worker polls: it is heeded when one does (python -m worker)", err=True)
