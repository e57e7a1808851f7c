"""Wait for work that an operation started, show how far it is, and return its report."""

from typing import TYPE_CHECKING, Any

import typer

from sexton.interfaces.cli.json_output import wants_json

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.operations.fields import StartedWork
    from sexton.runtime.temporal.control_client import ControlClient


def follow(operation: str, service: "Deployment", started: "StartedWork") -> Any:
    """Return the report of started work. Ctrl-C ends the waiting, not the work."""
    if operation in ("round run", "apply"):
        from sexton.interfaces.cli.running import await_round

        return await_round(service, started, watch=not wants_json())
    from sexton.runtime.temporal.works import BINLOG_GCS, CHECKS, PURGE_ROUNDS, PURGES

    works: dict[str, ControlClient[Any, Any, Any]] = {
        "check run": CHECKS,
        "wal purge": PURGES,
        "wal round run": PURGE_ROUNDS,
        "binlog gc": BINLOG_GCS,
    }
    run, subject = (started.workflow, started.run), started.topic or started.instance
    return works[operation].follow(service.settings, run, subject, lambda text: typer.echo(text, err=True))
