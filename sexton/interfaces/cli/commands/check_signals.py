"""Show the progress of a running check, and signal it."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import ask_temporal, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.signals import SignalTarget, send_signal

Instance = Annotated[str, typer.Argument(help="The instance.")]


def progress(instance: Instance) -> None:
    """Print the progress of the running check.

    Example: sexton check progress shop
    """
    from sexton.runtime.temporal.checks import CHECKS, describe

    with open_database() as service:
        service.stores.registry.instance(instance)
        state = ask_temporal(service.settings, lambda client: CHECKS.progress(client, service.settings, instance))
    if wants_json():
        emit(state)
    else:
        typer.echo(f"check of {instance}: {describe(state)}")


def cancel(instance: Instance) -> None:
    """End the running check; it confirms nothing.

    Example: sexton check cancel shop
    """
    _signal(instance, "cancel", f"it ends and confirms nothing; see: sexton check list {instance}")


def pause(instance: Instance) -> None:
    """Pause the running check. It lists everything again when it is resumed; no other check begins until then.

    Example: sexton check pause shop
    """
    _signal(instance, "pause", f"it waits, until: sexton check resume {instance}")


def resume(instance: Instance) -> None:
    """Resume a paused check. It lists everything again.

    Example: sexton check resume shop
    """
    _signal(instance, "resume", "it lists everything again and continues")


def retry(instance: Instance) -> None:
    """Let a check that is backing off try again now.

    Example: sexton check retry shop
    """
    _signal(instance, "retry", "if it is backing off, it tries again now")


def _signal(instance: str, signal: str, effect: str) -> None:
    from sexton.runtime.temporal.checks import CHECKS

    with open_database() as service:
        service.stores.registry.instance(instance)
        send_signal(service, SignalTarget(CHECKS, "check", instance), signal, effect)
