"""`sexton replica`: copies of tablets on backends, what is wrong with them, and what they keep for each other."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, one_instance, opened, recorded, said
from sexton.interfaces.cli.output import dump, many, show, when
from sexton.interfaces.cli.render.replicas import backend_row, show_tablet, unwell_row

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.replication.replicas.model import BackendStanding

app = typer.Typer(help="Copies of tablets on backends, and what they keep for each other.", no_args_is_help=True)
Of = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
Tablet = Annotated[str, typer.Argument(metavar="TABLET", help="The tablet.")]
Backend = Annotated[str, typer.Argument(metavar="BACKEND", help="The backend.")]
SHOWN = 1_000


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Those in order, too.")] = False,
    instance: Of = None,
    as_json: Json = False,
) -> None:
    """Print copies with which something is wrong, by tablet; a thousand at most.

    needs: the first version that it still has to get. last failed: a version that it lacks, to be repaired.

    Example: sexton replica list
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.replicas import policy

    with opened() as (settings, db):
        of = one_instance(db, instance)
        found, now = OperatorService(settings, db).binlogs.replicas.unwell(of, SHOWN + 1, every=every)
    if as_json:
        dump([r.model_dump(mode="json") | {"unwell": policy.unwell(r, now)} for r in found[:SHOWN]])
        return
    none = f"no copy of {of} is known: its owner places them over the API" if every else f"every copy of {of} is well"
    columns = ("tablet", "backend", "version", "needs", "wrong", "last failed", "FULL_COPY_ONLY", "fresh until (UTC)")
    show("" if found else none, columns, [unwell_row(r, now) for r in found[:SHOWN]])
    if len(found) > SHOWN:
        typer.echo(f"these are the first {SHOWN}; by backend: sexton replica backends")


@app.command("explain")
def explain(tablet: Tablet, instance: Of = None, as_json: Json = False) -> None:
    """Print the copies of a tablet, what each still needs, which of them decides, and what may go.

    Example: sexton replica explain 10021
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.replicas import policy

    with opened() as (settings, db):
        found, now = OperatorService(settings, db).binlogs.replicas.tablet(one_instance(db, instance), tablet)
    if as_json:
        least = policy.lowest(found, now)
        copies = [r.model_dump(mode="json") | {"need": policy.need(r, now)} for r in found]
        who = least[1].backend if least and least[1] else None
        dump({"tablet": tablet, "need": least[0] if least else None, "decides": who, "copies": copies})
    else:
        show_tablet(tablet, found, now)


@app.command("full-copy")
def full_copy(
    tablet: Tablet,
    backend: Backend,
    reason: Annotated[str, typer.Option(help="Why; others will read it.")],
    instance: Of = None,
) -> None:
    """Say that a copy can only be repaired by a full copy: what it lacks is not kept for it any more.

    It counts again when it has reported that it has all that may be gone.

    Example: sexton replica full-copy 10021 be-3 --reason 'its disk is gone'
    """
    from sexton.interfaces.operator_service import OperatorService

    why = said(reason)
    with opened() as (settings, db):
        of = one_instance(db, instance)
        with recorded(db, "replica full-copy", of, f"{tablet} on {backend}", why):
            OperatorService(settings, db).binlogs.replicas.full_copy(of, tablet, backend, why)
    typer.echo(f"the copy of tablet {tablet} on {backend} is FULL_COPY_ONLY; see: sexton replica explain {tablet}")


@app.command("backends")
def backends(instance: Of = None, as_json: Json = False) -> None:
    """Print backends: when each reported and pulled, and its copies in numbers.

    Example: sexton replica backends
    """
    with opened() as (_, db):
        of = one_instance(db, instance)
        found = standings(db, of)
    if as_json:
        dump([b.model_dump(mode="json") for b in found])
        return
    columns = ("backend", "reported (UTC)", "pulled (UTC)", "copies", "to let go", "wrong", "problems")
    show("" if found else f"{of} has no backend", columns, [backend_row(b) for b in found])


@app.command("decommission")
def decommission(
    backend: Backend, instance: Of = None, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False
) -> None:
    """Forget a backend that will never come back, with all of its copies: nothing is kept for them any more.

    Refused where no other copy of one of its tablets is in order.

    Example: sexton replica decommission be-3
    """
    from sexton.interfaces.operator_service import OperatorService
    from sexton.replication.replicas.errors import UnknownBackend

    with opened() as (settings, db):
        of = one_instance(db, instance)
        its = next((b for b in standings(db, of) if b.backend == backend), None)
        if its is None:
            raise UnknownBackend(backend)
        there = f"{many(its.copies, 'copy', 'copies')}, {its.behind:,} of them with something to let go"
        typer.echo(f"backend {backend}: {there}; last report {when(its.reported_at)}, last pull {when(its.pulled_at)}")
        if not yes:
            typer.confirm("will it never come back?", abort=True, err=True)
        with recorded(db, "replica decommission", of, backend):
            n = OperatorService(settings, db).binlogs.placements.decommission(of, backend)
    typer.echo(f"backend {backend} is forgotten, with {many(n, 'copy', 'copies')}")


def standings(db: "Database", instance: str) -> "list[BackendStanding]":
    """Return the backends of an instance, by name."""
    from sexton.replication.replicas.sql import figures

    with db.read() as c:
        return list(figures.standings(db, c, instance))
