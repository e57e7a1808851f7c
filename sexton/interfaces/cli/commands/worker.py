"""`sexton worker`: run a worker of this deployment in the foreground."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sexton.kernel.errors import WrongUsage

if TYPE_CHECKING:
    from sexton.replication.agent.serving import ServedBackend

Role = Literal["control", "spark", "backend"]


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


COMMANDS = {"worker run": run}
