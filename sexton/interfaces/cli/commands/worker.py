"""`sexton worker`: run a worker of this deployment in the foreground."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sexton.interfaces.cli.context import WrongUsage, ask_temporal, log_call, open_database
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table

if TYPE_CHECKING:
    from sexton.replication.agent.serving import ServedBackend

app = typer.Typer(help="The workers, which execute rounds, checks and purges.", no_args_is_help=True)
Role = Literal["control", "spark", "backend"]


@app.command("run")
def run(
    role: Annotated[Role, typer.Option(help="The kind of worker.")] = "control",
    backend_id: Annotated[
        str, typer.Option(metavar="N", help="With --role backend: the id of the storage node beside the worker.")
    ] = "",
    data_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="With it: the node's data directory, with its meta.db.")
    ] = None,
    api: Annotated[
        str, typer.Option(metavar="URL", help="With it: the address of Sexton's API; default: SEXTON_API_URL, or here.")
    ] = "",
    instance: Annotated[str, typer.Option(metavar="I", help="With it: the instance of the storage node.")] = "",
) -> None:
    """Run a worker until Ctrl-C or SIGTERM. Start two or more control workers, on two machines.

    control: workflows, and all activities except those below. spark: listings, comparisons and deletions of many
    objects on Spark. backend: beside a storage node, whose binlogs it deletes; it opens no database.

    Example: sexton worker run --role spark
    """
    backend = served_backend(role, backend_id, data_dir, api, instance)
    # Imported here, as Temporal's client and SQLAlchemy take a second, which the CLI's start must not.
    from sexton.interfaces.worker import process
    from sexton.runtime.temporal.client import run as run_to_the_end

    run_to_the_end(process.main(role, backend))


@app.command("builds")
def builds() -> None:
    """Print the builds of this deployment's workers, and which takes new workflows.

    Only with temporal.worker_versioning.

    Example: sexton worker builds
    """
    from config.settings import load
    from sexton.runtime.temporal import versions

    settings = load()
    known = ask_temporal(settings, lambda client: versions.builds(client, settings))
    if wants_json():
        emit_list(known)
        return
    own = versions.build_of(settings)
    rows = [(build.build, build.state, "this installation" if build.build == own else "") for build in known]
    none = "no worker with temporal.worker_versioning ever ran; see: docs/upgrade.md"
    show_table("" if rows else none, ("build", "state", ""), rows)


@app.command("promote")
def promote(
    build: Annotated[str | None, typer.Argument(metavar="[BUILD]", help="Default: this installation's.")] = None,
) -> None:
    """Make a build current: workflows begin on it, and running ones move to it.

    Activities that run end on the earlier build, so stop its workers as usual.

    Example: sexton worker promote 0.2.0
    """
    from sexton.runtime.temporal import versions

    with open_database() as service:
        settings = service.settings
        name = build or versions.build_of(settings)
        with log_call(service, "worker promote", subject=name):
            ask_temporal(settings, lambda client: versions.promote(client, settings, name))
    typer.echo(f"build {name} is current: workflows begin on it, and running ones move to it")


def served_backend(
    role: Role, backend_id: str, data_dir: Path | None, api: str, instance: str
) -> "ServedBackend | None":
    """Return the backend that the options name, None for another role. Raises ``WrongUsage``."""
    if role != "backend":
        if any((backend_id, data_dir, api, instance)):
            raise WrongUsage("--backend-id, --data-dir, --api and --instance are for --role backend")
        return None
    if not backend_id or not data_dir:
        raise WrongUsage("--role backend needs --backend-id and --data-dir")
    from sexton.replication.agent.serving import DEFAULT_API, ServedBackend

    return ServedBackend(backend_id, data_dir, api or os.environ.get("SEXTON_API_URL") or DEFAULT_API, instance)
