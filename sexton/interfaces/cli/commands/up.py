"""`sexton up`: run the embedded stack in the foreground."""

from typing import Annotated

import typer

from config.sources import home


def up(worker: Annotated[bool, typer.Option(help="Also start a worker.")] = True) -> None:
    """Run the whole stack on this machine.

    Temporal, S3, SQLite and a worker run until Ctrl-C. Data and logs are stored in .sexton/.

    Example: sexton up --no-worker
    """
    from sexton.runtime.embedded.up import run

    run(home(), worker, typer.echo)
