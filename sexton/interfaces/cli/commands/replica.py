"""`sexton replica`: list replicas of tablets, what is wrong with them, and which binlogs they retain for each other."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import OptionalInstance, log_call, one_instance, open_database, require_reason
from sexton.interfaces.cli.json_output import emit_list, emit_object, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.replicas import backend_row, replica_row, show_tablet
from sexton.interfaces.wording import quantity, utc

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.replication.replicas.model import BackendStanding

app = typer.Typer(help="Replicas of tablets on backends, and the binlogs they retain.", no_args_is_help=True)
InstanceOption = Annotated[str | None, typer.Option("--instance", help="Default: the only instance.")]
Tablet = Annotated[str, typer.Argument(metavar="TABLET", help="The tablet.")]
Backend = Annotated[str, typer.Argument(metavar="BACKEND", help="The backend.")]
PAGE_ROWS = 1_000


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Healthy replicas, too.")] = False,
    instance: OptionalInstance = None,
) -> None:
    """Print unhealthy replicas, by tablet; a thousand at most.

    needs: the first version that the replica still has to get. last failed: a version that it is missing, to be
    repaired.

    Example: sexton replica list
    """
    from sexton.replication.replicas import policy

    with open_database() as service:
        name = one_instance(service, instance)
        page, now = service.stores.binlogs.replicas.list_unhealthy(name, PAGE_ROWS + 1, every=every)
    shown = page[:PAGE_ROWS]
    if wants_json():
        rows = [stable(r) | {"faults": policy.describe_faults(r, now)} for r in shown]
        emit_list(rows, more=len(page) > PAGE_ROWS)
        return
    none = f"every replica of {name} is healthy"
    if every:
        none = f"no replica of {name} is known: its owner places them over the API"
    versions = ("continuous", "needs", "wrong", "last failed")
    columns = ("tablet", "backend", *versions, "FULL_COPY_ONLY", "fresh until (UTC)")
    show_table("" if shown else none, columns, [replica_row(r, now) for r in shown])
    if len(page) > PAGE_ROWS:
        typer.echo(f"these are the first {PAGE_ROWS}; by backend: sexton replica backends")


@app.command("explain")
def explain(tablet: Tablet, instance: InstanceOption = None) -> None:
    """Explain the replicas of a tablet.

    What each still needs, which one decides, and what may be deleted.

    Example: sexton replica explain 10021
    """
    from sexton.replication.replicas import policy

    with open_database() as service:
        replicas, now = service.stores.binlogs.replicas.tablet(one_instance(service, instance), tablet)
    if not wants_json():
        show_tablet(tablet, replicas, now)
        return
    lowest = policy.lowest_needed_version(replicas, now)
    deciding = lowest[1] if lowest else None
    emit_object(
        {
            "tablet": tablet,
            "need": lowest[0] if lowest else None,
            "decides": deciding.backend if deciding else None,
            "copies": [stable(r) | {"need": policy.need(r, now)} for r in replicas],
        }
    )


@app.command("full-copy")
def full_copy(
    tablet: Tablet,
    backend: Backend,
    reason: Annotated[str, typer.Option(help="Why; other operators will read it.")],
    instance: InstanceOption = None,
) -> None:
    """Declare that a replica needs a full copy.

    Versions are no longer retained for it. The replica counts again when it has reported that it has every version that
    may have been deleted.

    Example: sexton replica full-copy 10021 be-3 --reason 'its disk is gone'
    """
    text = require_reason(reason)
    with open_database() as service:
        name = one_instance(service, instance)
        with log_call(service, "replica full-copy", name, f"{tablet} on {backend}", text):
            service.stores.binlogs.replicas.full_copy(name, tablet, backend, text)
    typer.echo(f"the replica of tablet {tablet} on {backend} is FULL_COPY_ONLY; see: sexton replica explain {tablet}")


@app.command("backends")
def backends(instance: OptionalInstance = None) -> None:
    """Print backends.

    When each reported and pulled, and the numbers of its replicas.

    Example: sexton replica backends
    """
    with open_database() as service:
        name = one_instance(service, instance)
        rows = _standings(service.db, name)
    if wants_json():
        emit_list(rows)
        return
    columns = ("backend", "reported (UTC)", "pulled (UTC)", "replicas", "to delete", "wrong", "problems")
    show_table("" if rows else f"{name} has no backend", columns, [backend_row(b) for b in rows])


@app.command("decommission")
def decommission(
    backend: Backend,
    instance: InstanceOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Forget a backend that will never return.

    Its replicas are forgotten too, and nothing is retained for them any longer. Refused if one of its tablets has no
    other healthy replica.

    Example: sexton replica decommission be-3
    """
    from sexton.replication.replicas.errors import UnknownBackend

    with open_database() as service:
        name = one_instance(service, instance)
        standing = next((b for b in _standings(service.db, name) if b.backend == backend), None)
        if standing is None:
            raise UnknownBackend(backend)
        typer.echo(_standing_summary(standing))
        if not yes:
            typer.confirm("Will it never return?", abort=True, err=True)
        with log_call(service, "replica decommission", name, backend):
            count = service.stores.binlogs.placements.decommission(name, backend)
    typer.echo(f"backend {backend} is forgotten, with {quantity(count, 'replica')}")


def _standing_summary(standing: "BackendStanding") -> str:
    replicas = f"{quantity(standing.copies, 'replica')}, {standing.behind:,} of them with something to delete"
    times = f"last report {utc(standing.reported_at)}, last pull {utc(standing.pulled_at)}"
    return f"backend {standing.backend}: {replicas}; {times}"


def _standings(db: "Database", instance: str) -> "list[BackendStanding]":
    """Return the backends of an instance, by name."""
    from sexton.replication.replicas.sql import figures

    with db.read() as c:
        return list(figures.backend_standings(db, c, instance))
