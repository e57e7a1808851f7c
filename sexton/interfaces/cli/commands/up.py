"""`sexton up`: run the embedded stack in the foreground."""

from typing import Annotated

import typer

from config.sources import home


def up(
    worker: Annotated[bool, typer.Option(help="Also start a worker and a worker for Spark.")] = True,
) -> None:
    """Run the whole stack on this machine.

    PostgreSQL, Temporal, S3, a worker and a worker for Spark run until Ctrl-C. Spark itself starts with the first check
    or deletion of many objects. Data and logs are stored in .sexton/.

    Example: sexton up --no-worker
    """
    from sexton.runtime.embedded.up import run

    run(home(), worker, typer.echo)


COMMANDS = {"up": up}
