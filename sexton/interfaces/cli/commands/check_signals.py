"""Show the progress of a running check, and signal it."""

import typer

from sexton.interfaces.cli.context import OptionalInstance, ask_temporal, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.signals import SignalTarget, send_signal


def progress(given: OptionalInstance = None) -> None:
    """Print the progress of the running check.

    Example: sexton check progress shop
    """
    from sexton.runtime.temporal.checks import CHECKS, describe

    with open_database() as service:
        instance = one_instance(service, given)
        state = ask_temporal(service.settings, lambda client: CHECKS.progress(client, service.settings, instance))
    if wants_json():
        emit(state)
    else:
        typer.echo(f"check of {instance}: {describe(state)}")


def cancel(given: OptionalInstance = None) -> None:
    """End the running check; it confirms nothing.

    Example: sexton check cancel shop
    """
    _signal(given, "cancel", "it ends and confirms nothing; see: sexton check list {instance}")


def pause(given: OptionalInstance = None) -> None:
    """Pause the running check. It lists everything again when it is resumed; no other check begins until then.

    Example: sexton check pause shop
    """
    _signal(given, "pause", "it waits, until: sexton check resume {instance}")


def resume(given: OptionalInstance = None) -> None:
    """Resume a paused check. It lists everything again.

    Example: sexton check resume shop
    """
    _signal(given, "resume", "it lists everything again and continues")


def retry(given: OptionalInstance = None) -> None:
    """Let a check that is backing off try again now.

    Example: sexton check retry shop
    """
    _signal(given, "retry", "if it is backing off, it tries again now")


def _signal(given: str | None, signal: str, effect: str) -> None:
    from sexton.runtime.temporal.checks import CHECKS

    with open_database() as service:
        instance = one_instance(service, given)
        send_signal(service, SignalTarget(CHECKS, instance), signal, effect.format(instance=instance))
