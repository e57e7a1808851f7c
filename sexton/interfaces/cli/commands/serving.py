"""Commands that serve until Ctrl-C or SIGTERM: the embedded stack, a worker, the HTTP API, the console."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from config.sources import home
from sexton.interfaces.cli.context import open_database
from sexton.kernel.errors import WrongUsage

if TYPE_CHECKING:
    from sexton.replication.agent.serving import ServedBackend

Role = Literal["control", "spark", "backend"]
Listen = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The address to listen on; default: the setting api.listen.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond loopback without TLS: tokens are sent in clear text.")
]


def up(
    worker: Annotated[bool, typer.Option(help="Also start workers and the console.")] = True,
) -> None:
    """Run the whole stack on this machine.

    PostgreSQL, Temporal, S3, the console, a worker and a worker for Spark run until Ctrl-C. Spark itself starts with
    the first check or deletion of many objects. Data and logs are stored in .sexton/.

    Example: sexton up --no-worker
    """
    from sexton.runtime.embedded.up import run

    run(home(), worker, typer.echo)


def worker(
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


def api(listen: Listen = None, insecure: Insecure = False) -> None:
    """Serve operators, meta services and sync jobs over HTTP. Each request needs a token: sexton token create.

    Example: sexton api --listen 127.0.0.1:8470
    """
    _serve(listen, insecure=insecure, console=False)


def console(listen: Listen = None, insecure: Insecure = False) -> None:
    """Serve the console at /console, and the API beside it. Log in with a token: sexton token create.

    Example: sexton console --listen 127.0.0.1:8470
    """
    _serve(listen, insecure=insecure, console=True)


def _serve(listen: str | None, *, insecure: bool, console: bool) -> None:
    from config.settings import load
    from sexton.interfaces.api.serve import serve
    from sexton.kernel import logs

    with open_database() as service:
        log = service.settings.log
        logs.configure(log.format, log.level, deployment=service.settings.deployment, role="api")
        given = {"api.listen": listen, "api.insecure": "true" if insecure else None}
        settings = load(**{key: value for key, value in given.items() if value is not None})
        if console:
            from sexton.interfaces.console.app import beside

            serve(settings, service.db, beside)
        else:
            serve(settings, service.db)


COMMANDS = {"up": up, "worker run": worker, "api": api, "console": console}
