"""`sexton round show --watch`: show how far a round is until it ends."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.operations import command
from sexton.operations.registry import operation_named

OPERATION = operation_named("round show", "rounds")


def show(
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round's number.", min=1, max=2**63 - 1)],
    watch: Annotated[bool, typer.Option("--watch", help="Show how far it is, each second, until it ends.")] = False,
) -> None:
    """Print one round, or watch it."""
    if watch and not wants_json():
        from sexton.interfaces.cli.watching import watch_one

        with open_database() as service:
            watch_one(service, "round", service.stores.reports.round(number).id)
    command(OPERATION)(round=number)


show.__doc__ = OPERATION.about
COMMANDS = {"round show": show}
