"""`sexton schedules`: show and control the schedule that starts due rounds."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WhyOption, ask_temporal, log_call, open_database, require_reason
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc_column
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from temporalio.client import Client

app = typer.Typer(help="The schedule that starts due rounds.", no_args_is_help=True)


@app.command("apply")
def apply() -> None:
    """Start rounds automatically: create the schedule, or update it. Repeatable.

    Example: sexton schedules apply
    """
    from sexton.runtime.temporal import schedules, search_attributes

    with open_database() as service, log_call(service, "schedules apply"):
        settings, every = service.settings, service.live.shortest_interval()

        async def register_and_apply(client: "Client") -> tuple[str, list[str], str]:
            registered, warning = list[str](), ""
            try:
                registered = await search_attributes.register(client)
            except SextonError as e:
                warning = str(e)
            return await schedules.apply(client, settings, every), registered, warning

        result, registered, warning = ask_temporal(settings, register_and_apply)
    tick = schedules.tick_seconds(every)
    typer.echo(f"schedule {settings.require_deployment()}: {result}; an instance has a round every {every} s,")
    typer.echo(f"and every {tick} s the schedule checks which instances and topics are due")
    if registered:
        typer.echo(f"search attributes registered: {', '.join(registered)}")
    if warning:
        typer.echo(f"warning: {warning}", err=True)


@app.command("list")
def list_() -> None:
    """Print the schedule that is stored in Temporal.

    Example: sexton schedules list
    """
    from config.settings import load
    from sexton.runtime.temporal import schedules

    settings = load()
    deployment = settings.require_deployment()
    stored = ask_temporal(settings, lambda client: schedules.describe(client, deployment))
    if wants_json():
        emit_list(stored)
        return
    rows = [
        (
            s.id,
            f"{s.every_seconds:.0f} s",
            "paused" if s.paused else "active",
            utc_column(s.last),
            utc_column(None if s.paused else s.next),
            s.note,
        )
        for s in stored
    ]
    none = "rounds run only when you start them; to schedule them: sexton schedules apply"
    show_table("" if rows else none, ("schedule", "every", "state", "last (UTC)", "next (UTC)", "note"), rows)


@app.command("pause")
def pause(reason: Annotated[str, typer.Option(help="Why; other operators will read it.")]) -> None:
    """Stop starting rounds automatically; running rounds continue. To stop deletion: `sexton stop --all`.

    Example: sexton schedules pause --reason 'migrating the database'
    """
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal import schedules

    text = require_reason(reason)
    with open_database() as service, log_call(service, "schedules pause", reason=text, blocks_deletion=True):
        deployment, note = service.settings.require_deployment(), f"{text} ({whoami()})"
        ask_temporal(service.settings, lambda client: schedules.pause(client, deployment, note))
    typer.echo("no round starts automatically until: sexton schedules resume; running rounds continue")


@app.command("resume")
def resume(reason: WhyOption = "") -> None:
    """Start rounds automatically again.

    Example: sexton schedules resume
    """
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal import schedules

    with open_database() as service, log_call(service, "schedules resume", reason=reason):
        text = f": {reason}" if reason else ""
        deployment, note = service.settings.require_deployment(), f"resumed by {whoami()}{text}"
        ask_temporal(service.settings, lambda client: schedules.resume(client, deployment, note))
    typer.echo("due rounds start at the next tick of the schedule")
