"""Signal a running workflow: ``cancel``, ``pause``, ``resume``, ``retry``."""

from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from sexton.interfaces.cli.context import NO_WORKER, ask_temporal, log_call

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService
    from sexton.runtime.temporal.control_client import ControlClient


class SignalTarget(NamedTuple):
    """The workflow that is signalled. ``instance``: empty if it serves every one."""

    control: "ControlClient[Any, Any, Any]"
    instance: str
    topic: str = ""


def send_signal(service: "OperatorService", target: SignalTarget, signal: str, effect: str) -> None:
    """Send a signal and print its effect; it is in the log of calls.

    Raises:
        SextonError: no such workflow runs, or Temporal cannot be reached.
    """
    settings, control = service.settings, target.control
    subject = target.topic or target.instance
    blocks_deletion, action = signal in ("cancel", "pause"), f"{control.command} {signal}"
    with log_call(service, action, target.instance, target.topic, blocks_deletion=blocks_deletion):
        workers = ask_temporal(settings, lambda client: control.signal(client, settings, subject, signal))
    typer.echo(f"Sent {signal} to {control.name.format(subject=subject)}: {effect}")
    if not workers:
        typer.echo(NO_WORKER, err=True)
