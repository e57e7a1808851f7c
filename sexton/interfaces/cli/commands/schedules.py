"""`sexton schedules`: whether rounds start by themselves."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, ask_temporal, said
from sexton.interfaces.cli.output import dump, show, stamp
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from temporalio.client import Client

app = typer.Typer(help="The schedule that starts due rounds.", no_args_is_help=True)


@app.command("apply")
def apply() -> None:
    """Let rounds start by themselves: create the schedule, or change what differs. Repeatable.

    Example: sexton schedules apply
    """
    from config.settings import load
    from sexton.runtime.temporal import schedules, search_attributes

    settings = load()
    every = settings.recycle.recycle_interval_seconds
    tick = schedules.tick_seconds(every)

    async def applied(client: "Client") -> tuple[str, list[str], str]:
        done = await schedules.apply(client, settings)
        try:
            return done, await search_attributes.register(client), ""
        except SextonError as e:
            return done, [], str(e)

    done, added, warning = ask_temporal(settings, applied)
    typer.echo(f"schedule {settings.require_deployment()}: {done}; each instance has a round every {every} s,")
    typer.echo(f"and every {tick} s a tick looks for instances and topics that are due")
    if added:
        typer.echo(f"search attributes registered: {', '.join(added)}; workers use them after their next start")
    if warning:
        typer.echo(f"warning: {warning}", err=True)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Print the schedule as Temporal has it.

    Example: sexton schedules list
    """
    from config.settings import load
    from sexton.runtime.temporal import schedules

    settings = load()
    deployment = settings.require_deployment()
    found = ask_temporal(settings, lambda client: schedules.describe(client, deployment))
    if as_json:
        dump([s.model_dump() for s in found])
        return
    rows = [
        (
            s.id,
            f"{s.every_seconds:.0f} s",
            "paused" if s.paused else "active",
            stamp(s.last),
            stamp(None if s.paused else s.next),
            s.note,
        )
        for s in found
    ]
    none = "rounds run only when you start them; to schedule them: sexton schedules apply"
    show("" if rows else none, ("schedule", "every", "state", "last (UTC)", "next (UTC)", "note"), rows)


@app.command("pause")
def pause(reason: Annotated[str, typer.Option(help="Why; others will read it.")]) -> None:
    """Start no more rounds by themselves; those that run go on. To stop deletion: `sexton stop --all`.

    Example: sexton schedules pause --reason 'migrating the database'
    """
    from config.settings import load
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal import schedules

    settings = load()
    deployment, note = settings.require_deployment(), f"{said(reason)} ({whoami()})"
    ask_temporal(settings, lambda client: schedules.pause(client, deployment, note))
    typer.echo("no round starts by itself until: sexton schedules resume; rounds that run go on")


@app.command("resume")
def resume() -> None:
    """Let rounds start by themselves again.

    Example: sexton schedules resume
    """
    from config.settings import load
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal import schedules

    settings = load()
    deployment, note = settings.require_deployment(), f"resumed by {whoami()}"
    ask_temporal(settings, lambda client: schedules.resume(client, deployment, note))
    typer.echo("rounds that are due start with the next tick")
