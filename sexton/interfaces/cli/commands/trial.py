"""`sexton trial`: let time pass in a trial, so that retentions end without a wait."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import log_call, open_database, parse_duration
from sexton.interfaces.wording import utc

app = typer.Typer(help="Let time pass in a trial.", no_args_is_help=True)


@app.command("advance")
def advance(duration: Annotated[str, typer.Argument(help="How far: 30m, 12h, 7d or 2w.", metavar="DURATION")]) -> None:
    """Move the database's clock forward.

    Only in a deployment whose id begins with demo- or test-. The clock never moves back: what falls due stays due.

    Example: sexton trial advance 4d
    """
    from sexton.database.schema import move_clock

    seconds = parse_duration(duration)
    with open_database() as service:
        with log_call(service, "trial advance", subject=duration):
            move_clock(service.db, seconds)
        with service.db.read() as c:
            now = service.db.now(c)
    typer.echo(f"the clock of this deployment is {utc(now)} now; see what is due: sexton plan INSTANCE")
