"""`sexton status`, `sexton why`: one screen and one story, from SQL alone."""

from typing import Annotated

import typer

from sexton.cli.context import Json, counts, dump, opened, show, size, when


def status(as_json: Json = False) -> None:
    """Print every instance: what waits, is due, is set aside, the last round. Needs neither Temporal nor vaults.

    Example: sexton status
    """
    from sexton.recycle.status import overview

    with opened() as (settings, db):
        found = overview(db, settings.policy())
        ui = settings.temporal.ui_url
    if as_json:
        dump([i.model_dump(mode="json") for i in found])
        return
    if not found:
        typer.echo("no instance is registered; begin with: sexton instance add NAME")
    for i in found:
        lease = f"a round runs since {when(i.busy_since)}" if i.busy_since else "no round is running"
        typer.echo(f"{i.instance}: {i.mode}, {lease}")
        rows = [(k.kind, k.waiting, k.due, size(k.due_bytes), when(k.oldest), k.note) for k in i.kinds]
        if not rows:
            typer.echo("no mark waits")
        show("", ("kind", "marked", "due", "due bytes", "oldest", ""), rows)
        typer.echo(f"claimed, not gone: {i.claimed} (of these {i.late} prefixes wait for their last look)")
        typer.echo(f"set aside: {counts(i.quarantined)}")
        if i.last is None:
            typer.echo("last round: none yet")
        else:
            r = i.last
            what = "observed" if r.observed else f"deleted {r.deleted}, failed {r.failed}, kept {counts(r.held)}"
            typer.echo(f"last round: {r.round} at {when(i.last_ended)} {r.state}, {what}")
            if r.error:
                typer.echo(f"last error: {r.error}")
        typer.echo("")
    if ui:
        typer.echo(f"Temporal UI: {ui}")


def why(
    what: Annotated[str, typer.Argument(metavar="KEY|ID", help="An object's key, or a mark's id.")],
    instance: Annotated[str | None, typer.Option(help="Only in this instance.")] = None,
    as_json: Json = False,
) -> None:
    """Tell one object's or id's story: live, marked when, due when, set aside why, claimed where, gone when.

    Example: sexton why data/12/ab34_0.dat
    """
    from sexton.recycle.why import story
    from sexton.registry.store import Registry

    with opened() as (settings, db):
        if instance is not None:
            Registry(db).instance(instance)
        lines = story(db, what, instance, settings.policy())
    if as_json:
        dump([line.model_dump(mode="json") for line in lines])
        return
    for line in lines:
        typer.echo(f"{line.instance}  {line.kind} {line.id}".rstrip() if line.id else line.instance)
        for at, text in line.events:
            typer.echo(f"  {when(at) if at else ' ' * 19}  {text}")
    if not lines:
        typer.echo(f"{what}: neither marked nor remembered (history keeps 30 days); no owner's live view shows it")
