"""`sexton instance`, `sexton enable`: which databases are cleaned, and which of them for real."""

from typing import Annotated, Literal

import typer

from sexton.interfaces.cli.context import Json, opened, recorded
from sexton.interfaces.cli.output import dump, show, stamp

app = typer.Typer(help="Instances: one tenant database each.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Instance: lower-case letters, digits, - and _.")]


@app.command("add")
def add(
    name: Name,
    owner: Annotated[
        Literal["sql", "catalog"],
        typer.Option(help="Who marks: its own SQL transactions, or the reference catalog in Sexton's database."),
    ] = "sql",
) -> None:
    """Register an instance. It only observes (plans and reports, deletes nothing) until it is enabled.

    Example: sexton instance add shop
    """
    from sexton.operators.registry.store import Registry
    from sexton.owners.catalog import tables

    with opened() as (_, db), recorded(db, "instance add", name, owner):
        if owner == "catalog":
            tables.create(db)
        Registry(db).add_instance(name, owner)
        mode = Registry(db).instance(name).mode
    note = f"it observes until: sexton enable {name}" if mode == "observe" else "it was enabled already"
    typer.echo(f"instance {name} is registered; {note}")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Print every instance.

    Example: sexton instance list
    """
    from sexton.operators.registry.store import Registry

    with opened() as (_, db):
        found = Registry(db).instances()
    if as_json:
        dump([i.model_dump() for i in found])
        return
    rows = [(i.id, i.mode, i.owner, stamp(i.created_at), stamp(i.enabled_at)) for i in found]
    show(
        "" if rows else "no instance is registered; begin with: sexton instance add NAME",
        ("instance", "mode", "owner", "registered (UTC)", "enabled (UTC)"),
        rows,
    )


@app.command("keys")
def keys(
    name: Name,
    pattern: Annotated[str, typer.Argument(help="A regular expression that every key of the owner's files matches.")],
) -> None:
    """Say what the keys of an instance's files look like: what a check finds is an ORPHAN only if it matches.

    A group ``record`` names the record that a file belongs to. Empty: nobody knows, so nothing is an orphan.

    Example: sexton instance keys shop 'data/[0-9]+/(?P<record>[0-9a-f]+)_[0-9]+\\.dat'
    """
    from sexton.operators.registry.store import Registry

    with opened() as (_, db), recorded(db, "instance keys", name, pattern[:200]):
        Registry(db).set_key_pattern(name, pattern)
    typer.echo(f"the keys of {name}: {pattern}" if pattern else f"nobody knows the keys of {name}")


@app.command("observe")
def observe(name: Name) -> None:
    """Take `enable` back: rounds plan and report again, and delete nothing. What is claimed waits, claimed.

    Example: sexton instance observe shop
    """
    from sexton.operators.registry.store import Registry

    with opened() as (_, db), recorded(db, "observe", name, keeps=True):
        Registry(db).observe(name)
    typer.echo(f"instance {name} only observes; a round under way ends before its next claim")


def enable(instance: Name) -> None:
    """Let rounds of an instance delete. Look at a plan first.

    Example: sexton enable shop
    """
    from sexton.operators.registry.store import Registry
    from sexton.recycle.planning.sql.plans import PlanStore

    with opened() as (settings, db), recorded(db, "enable", instance):
        Registry(db).enable(instance)
        PlanStore(db).retentions.agree_first(instance, settings.policy())
    typer.echo(f"instance {instance} is enabled: rounds now delete what is due")
