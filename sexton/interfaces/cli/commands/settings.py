"""`sexton settings show`: also without a database, from the settings of this process alone."""

from typing import Annotated

import typer

from sexton.interfaces.cli.operations import command, finish
from sexton.kernel.errors import SextonError
from sexton.operations.registry import operation_named

OPERATION = operation_named("settings show", "settings")


def show(
    instance: Annotated[str | None, typer.Option(help="Only of this instance.")] = None,
) -> None:
    """Print settings, without those of the database where there is none."""
    from config.settings import explain
    from sexton.database.engine import AWAY
    from sexton.insight.wording import first_line
    from sexton.operations.settings import SettingList

    own = explain()
    try:
        command(OPERATION)(instance=instance)
    except (SextonError, *AWAY) as e:
        if instance:
            raise
        typer.echo(f"without the settings in the database: {first_line(str(e))}", err=True)
        finish("settings show", SettingList(items=tuple(own), ignored=()), {})


show.__doc__ = OPERATION.about
COMMANDS = {"settings show": show}
