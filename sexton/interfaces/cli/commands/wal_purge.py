"""`sexton wal purge`: purge a topic now, and signal a running purge."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.commands.wal import Name, instance_of
from sexton.interfaces.cli.context import ask_temporal, log_call, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.render.topics import show_explanation, show_purge_report
from sexton.interfaces.cli.signals import SignalTarget, send_signal

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService


def purge(
    topic: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what it would do; needs no Temporal.")] = False,
) -> None:
    """Purge a topic now.

    Regions flush, the new floor is persisted, and the entries below it are deleted. Prints the result. Ctrl-C stops
    waiting, not the purge.

    Example: sexton wal purge orders-wal
    """
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal.purges import PURGES
    from sexton.wal.messages import PurgeOutcome, PurgeRequest

    with open_database() as service:
        store = service.stores.wal.store
        instance = instance_of(service, topic)
        if dry_run:
            _dry_run(service, topic)
            return
        with log_call(service, "wal purge", instance, topic):
            deployment = service.settings.require_deployment()
            request = PurgeRequest(topic=topic, deployment=deployment, instance=instance, requested_by=whoami())
            report = PURGES.run(service.settings, request, lambda message: typer.echo(message, err=True))
        topic_after = store.topic(topic)
    if wants_json():
        emit(report)
    else:
        show_purge_report(topic_after, report)
    lost = report.purged is not None and report.purged.verdict.lost > 0
    if lost or report.outcome not in (PurgeOutcome.PURGED, PurgeOutcome.NOTHING):
        raise typer.Exit(1)


def progress(topic: Name) -> None:
    """Print the progress of the running purge of a topic.

    Example: sexton wal progress orders-wal
    """
    from sexton.runtime.temporal.purges import PURGES, describe

    with open_database() as service:
        service.stores.wal.store.topic(topic)
        state = ask_temporal(service.settings, lambda client: PURGES.progress(client, service.settings, topic))
    if wants_json():
        emit(state)
    else:
        typer.echo(f"topic {topic}: {describe(state)}")


def now(topic: Name) -> None:
    """Make a running purge stop waiting for flushes.

    Example: sexton wal now orders-wal
    """
    _signal(topic, "purge_now", "it purges what may be deleted now")


def cancel(topic: Name) -> None:
    """End the running purge of a topic before its next step.

    Example: sexton wal cancel orders-wal
    """
    _signal(topic, "cancel", "it ends before its next step")


def pause(topic: Name) -> None:
    """Pause the running purge of a topic before its next step.

    No other purge of the topic starts until it is resumed.

    Example: sexton wal pause orders-wal
    """
    _signal(topic, "pause", f"it waits, until: sexton wal resume {topic}")


def resume(topic: Name) -> None:
    """Resume a paused purge.

    Example: sexton wal resume orders-wal
    """
    _signal(topic, "resume", "it continues")


def retry(topic: Name) -> None:
    """Let a purge that is backing off try again now.

    Example: sexton wal retry orders-wal
    """
    _signal(topic, "retry", "if it is backing off, it tries again now")


def _dry_run(service: "OperatorService", topic: str) -> None:
    from sexton.wal.explain import explain

    explanation = explain(service.db, service.stores.wal, topic)
    if wants_json():
        emit(explanation)
    else:
        show_explanation(explanation)


def _signal(topic: str, signal: str, effect: str) -> None:
    from sexton.runtime.temporal.purges import PURGES

    with open_database() as service:
        send_signal(service, SignalTarget(PURGES, instance_of(service, topic), topic), signal, effect)
