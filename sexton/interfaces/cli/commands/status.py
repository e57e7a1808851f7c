"""`sexton status --watch`: show again and again what runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import open_database
from sexton.interfaces.cli.json_output import wants_json
from sexton.interfaces.cli.operations import command
from sexton.kernel.errors import WrongUsage
from sexton.kernel.printable import printable
from sexton.operations.registry import operation_named

if TYPE_CHECKING:
    from sexton.deployment import Deployment

MOST_HALTS = 5
OPERATION = operation_named("status", "control")


def status(
    instance: Annotated[str | None, typer.Argument(help="Only this instance.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show what runs, each second, until Ctrl-C.")] = False,
) -> None:
    """Print the status once, or what runs again and again."""
    if not watch:
        command(OPERATION)(instance=instance)
        return
    from sexton.insight.progress import read_running
    from sexton.interfaces.cli import watching

    if wants_json():
        raise WrongUsage("--watch is for people; programs call sexton status --json again")
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        watching.watch(lambda: read_running(service.db, instance), lambda: _halts(service, instance))


status.__doc__ = OPERATION.about


def _halts(service: "Deployment", instance: str | None) -> list[str]:
    """Return a line for each halted instance, a few of them."""
    from sexton.operators.controls.policy import halt_by_instance

    controls, registry = service.stores.controls, service.stores.registry
    names = [i.id for i in registry.instances()] if instance is None else [instance]
    with service.db.read() as c:
        halted = halt_by_instance(controls.all_in(c), service.db.now(c))
    lines = [f"{name} is halted: {printable(str(why))}" for name in names if (why := halted(name)) is not None]
    return [*lines[:MOST_HALTS], *([f"and {len(lines) - MOST_HALTS:,} more"] if len(lines) > MOST_HALTS else [])]


COMMANDS = {"status": status}
