"""`sexton why`: the story of one object or id, and everything that keeps it, from SQL and the audit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened, seconds
from sexton.interfaces.cli.output import dump, many, size, when
from sexton.kernel.errors import SextonError

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.insight.views import Story
    from sexton.recycle.audit.store import AuditReader

NO_INSTANT = " " * len("2026-01-01 00:00:00 UTC")


class NothingKnown(SextonError):
    """Neither SQL nor what was read of the audit knows the name."""


def why(
    what: Annotated[str, typer.Argument(metavar="KEY|ID", help="An object's key, or a mark's id.")],
    instance: Annotated[str | None, typer.Option(help="Only in this instance.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Search every day of the audit for what SQL has forgotten.")
    ] = False,
    last: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --deep: only the days since then, e.g. 90d.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell one object's or id's story.

    Whether it is live, marked when, due when, kept by whom, claimed where, gone when. SQL remembers what is gone for
    30 days; the audit, which --deep searches, for longer.

    Example: sexton why data/12/ab34_0.dat
    """
    from sexton.interfaces.operator_service import OperatorService

    since = None if last is None else seconds(last)
    if last is not None and not deep:
        raise WrongUsage("--last goes with --deep: SQL is always asked whole")
    if "\0" in what or what != what.encode(errors="replace").decode():
        raise WrongUsage(f"{what!r} is no text that a key or an id could be")
    with opened() as (settings, db):
        desk = OperatorService(settings, db)
        if instance is not None:
            desk.registry.instance(instance)
        reader, told = desk.audit, desk.stories(what, instance)
        hint = ""
        if deep:
            told += _searched(db, reader, what, instance, since, told)
        elif not told:
            hint = _hint(db, reader, what, instance)
    if not told:
        raise NothingKnown(f"nothing is known of {what}: it is neither marked nor remembered, no owner shows it{hint}")
    if as_json:
        dump([one.model_dump(mode="json") for one in told])
        return
    for one in told:
        typer.echo(f"{one.instance}  {one.kind} {one.id}".rstrip() if one.id else one.instance)
        for e in one.events:
            typer.echo(f"  {when(e.at) if e.at else NO_INSTANT}  {e.text}")


def _instances(db: "Database", instance: str | None) -> list[str]:
    from sexton.operators.registry.store import Registry

    return [instance] if instance is not None else [i.id for i in Registry(db).instances()]


def _searched(
    db: "Database", reader: "AuditReader", what: str, instance: str | None, since: int | None, told: "Sequence[Story]"
) -> "list[Story]":
    """Return what every day of the audit tells of marks that no story was told of."""
    from sexton.insight.why.audit import forgotten
    from sexton.insight.why.story import names_of

    with db.read() as c:
        now = db.now(c)
    first = 0 if since is None else now - since * 1000
    known = {(s.instance, s.kind, s.id) for s in told}
    found = forgotten(reader, _instances(db, instance), names_of(db, what, instance), first, now)
    return [s for s in found if (s.instance, s.kind, s.id) not in known]


def _hint(db: "Database", reader: "AuditReader", what: str, instance: str | None) -> str:
    """Return what a search through the audit would read."""
    with db.read() as c:
        now = db.now(c)
    sizes = [reader.size(i, 0, now) for i in _instances(db, instance)]
    files = sum(s.files for s in sizes)
    if not files:
        return ""
    more = "" if all(s.whole for s in sizes) else "more than "
    return (
        f". The audit remembers longer: sexton why {what} --deep reads {more}{many(files, 'file')} of it "
        f"({more}{size(sum(s.bytes for s in sizes))}); --last 90d reads fewer"
    )
