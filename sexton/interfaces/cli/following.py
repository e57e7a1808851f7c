"""Wait for work that an operation started, show how far it is, and return its report."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from sexton.interfaces.cli.json_output import wants_json

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.operations.fields import StartedWork
    from sexton.runtime.temporal.control_client import ControlClient


def _checks() -> "ControlClient[Any, Any, Any]":
    from sexton.runtime.temporal.checks import CHECKS

    return CHECKS


def _purges() -> "ControlClient[Any, Any, Any]":
    from sexton.runtime.temporal.purges import PURGES

    return PURGES


def _purge_rounds() -> "ControlClient[Any, Any, Any]":
    from sexton.runtime.temporal.purges import PURGE_ROUNDS

    return PURGE_ROUNDS


def _binlog_gcs() -> "ControlClient[Any, Any, Any]":
    from sexton.runtime.temporal.binlogs import BINLOG_GCS

    return BINLOG_GCS


CONTROLS: Mapping[str, Callable[[], "ControlClient[Any, Any, Any]"]] = {
    "check run": _checks,
    "wal purge": _purges,
    "wal round run": _purge_rounds,
    "binlog gc": _binlog_gcs,
}


def follow(operation: str, service: "Deployment", started: "StartedWork") -> Any:
    """Return the report of started work. Ctrl-C ends the waiting, not the work."""
    if operation in ("round run", "apply"):
        from sexton.interfaces.cli.running import await_round

        return await_round(service, started, watch=not wants_json())
    subject = started.topic or started.instance
    return CONTROLS[operation]().follow(service.settings, started, subject, lambda text: typer.echo(text, err=True))
