"""`sexton binlog gc`: clean an instance's binlogs now, and signal a running clean-up."""

import typer

from sexton.interfaces.cli.context import OptionalInstance, ask_temporal, log_call, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.render.binlogs import show_gc_report
from sexton.interfaces.cli.signals import SignalTarget, send_signal


def gc(instance: OptionalInstance = None) -> None:
    """Run binlog GC for an instance now.

    It cuts expired records, has backends delete, and prints the result. Ctrl-C stops waiting, not the run. Exit code 1:
    nothing was cut, because of its clock, a stop, or observe mode.

    Example: sexton binlog gc
    """
    from sexton.operators.controls.store import whoami
    from sexton.replication.binlog.messages import GcRequest
    from sexton.runtime.temporal.binlogs import BINLOG_GCS

    with open_database() as service:
        name = one_instance(service, instance)
        with log_call(service, "binlog gc", name):
            deployment = service.settings.require_deployment()
            request = GcRequest(deployment=deployment, instance=name, requested_by=whoami())
            report = BINLOG_GCS.run(service.settings, request, lambda message: typer.echo(message, err=True))
    if wants_json():
        emit(report)
    else:
        show_gc_report(report)
    if report.cut.refused or report.cancelled:
        raise typer.Exit(1)


def progress(instance: OptionalInstance = None) -> None:
    """Print the progress of the running GC.

    Example: sexton binlog progress
    """
    from sexton.runtime.temporal.binlogs import BINLOG_GCS, describe

    with open_database() as service:
        name = one_instance(service, instance)
        state = ask_temporal(service.settings, lambda client: BINLOG_GCS.progress(client, service.settings, name))
    if wants_json():
        emit(state)
    else:
        typer.echo(f"binlogs of {name}: {describe(state)}")


def cancel(instance: OptionalInstance = None) -> None:
    """End the running GC. Records that are cut stay cut.

    Example: sexton binlog cancel
    """
    _signal(instance, "cancel", "it ends; records that are cut stay cut")


def pause(instance: OptionalInstance = None) -> None:
    """Pause the running GC.

    No other run begins until it is resumed.

    Example: sexton binlog pause
    """
    _signal(instance, "pause", "it waits, until: sexton binlog resume")


def resume(instance: OptionalInstance = None) -> None:
    """Resume a paused GC.

    Example: sexton binlog resume
    """
    _signal(instance, "resume", "it continues")


def retry(instance: OptionalInstance = None) -> None:
    """Let a GC that is backing off try again now.

    Example: sexton binlog retry
    """
    _signal(instance, "retry", "if it is backing off, it tries again now")


def _signal(instance: str | None, signal: str, effect: str) -> None:
    from sexton.runtime.temporal.binlogs import BINLOG_GCS

    with open_database() as service:
        send_signal(service, SignalTarget(BINLOG_GCS, one_instance(service, instance)), signal, effect)
