"""`sexton why`: the story of one object or id, and everything that keeps it, from SQL alone."""

from typing import Annotated

import typer

from sexton.cli.context import Json, controls, opened, turns
from sexton.cli.output import dump, when

NO_INSTANT = " " * len("2026-01-01 00:00:00 UTC")


def why(
    what: Annotated[str, typer.Argument(metavar="KEY|ID", help="An object's key, or a mark's id.")],
    instance: Annotated[str | None, typer.Option(help="Only in this instance.")] = None,
    as_json: Json = False,
) -> None:
    """Tell one object's or id's story.

    Whether it is live, marked when, due when, kept by whom, claimed where, gone when.

    Example: sexton why data/12/ab34_0.dat
    """
    from sexton.recycle.why import Rules, story
    from sexton.registry.store import Registry

    with opened() as (settings, db):
        if instance is not None:
            Registry(db).instance(instance)
        given = Rules(settings.policy(), controls(settings, db), turns(settings, db))
        told = story(db, what, instance, given)
    if as_json:
        dump([one.model_dump(mode="json") for one in told])
        return
    for one in told:
        typer.echo(f"{one.instance}  {one.kind} {one.id}".rstrip() if one.id else one.instance)
        for e in one.events:
            typer.echo(f"  {when(e.at) if e.at else NO_INSTANT}  {e.text}")
    if not told:
        typer.echo(f"{what}: neither marked nor remembered (history keeps 30 days); no owner's live view shows it")
