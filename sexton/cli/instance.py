"""`sexton instance`, `sexton enable`: which databases are cleaned, and which of them for real."""

from typing import Annotated

import typer

from sexton.cli.context import Json, dump, opened, show, when

app = typer.Typer(help="Instances: one tenant database each.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Instance: lower-case letters, digits, - and _.")]


@app.command("add")
def add(name: Name) -> None:
    """Register an instance. It only observes (plans and reports, deletes nothing) until it is enabled.

    Example: sexton instance add shop
    """
    from sexton.registry.store import Registry

    with opened() as (_, db):
        Registry(db).add_instance(name)
        mode = Registry(db).instance(name).mode
    note = f"it observes until: sexton enable {name}" if mode == "observe" else "it was enabled already"
    typer.echo(f"instance {name} is registered; {note}")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Print every instance.

    Example: sexton instance list
    """
    from sexton.registry.store import Registry

    with opened() as (_, db):
        found = Registry(db).instances()
    if as_json:
        dump([i.model_dump() for i in found])
        return
    rows = [(i.id, i.mode, when(i.created_at), when(i.enabled_at)) for i in found]
    show("", ("instance", "mode", "registered", "enabled"), rows)


def enable(instance: Name) -> None:
    """Let rounds of an instance delete. Look at a plan first.

    Example: sexton enable shop
    """
    from sexton.registry.store import Registry

    with opened() as (_, db):
        Registry(db).enable(instance)
    typer.echo(f"instance {instance} is enabled: rounds now delete what is due")
