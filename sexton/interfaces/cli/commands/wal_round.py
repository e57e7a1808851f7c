"""`sexton wal round`: the round that starts the purges of due topics."""

import typer

from sexton.interfaces.cli.context import ask_temporal, log_call, open_database
from sexton.interfaces.cli.json_output import emit, wants_json
from sexton.interfaces.cli.render.topics import show_round_report
from sexton.interfaces.cli.signals import SignalTarget, send_signal

app = typer.Typer(
    help="The round that starts a purge for each due topic with work; the purges go on without it.",
    no_args_is_help=True,
)


@app.command("run")
def run() -> None:
    """Start a round now: a purge for each topic that is due and has work.

    Example: sexton wal round run
    """
    from sexton.operators.controls.store import whoami
    from sexton.runtime.temporal.purges import PURGE_ROUNDS
    from sexton.wal.messages import PurgeRoundRequest

    with open_database() as service, log_call(service, "wal round run"):
        request = PurgeRoundRequest(deployment=service.settings.require_deployment(), requested_by=whoami())
        counts = PURGE_ROUNDS.run(service.settings, request, lambda message: typer.echo(message, err=True))
    if wants_json():
        emit(counts)
    else:
        show_round_report(counts)


@app.command("progress")
def progress() -> None:
    """Print the progress of the running round.

    Example: sexton wal round progress
    """
    from sexton.runtime.temporal.purges import PURGE_ROUNDS, describe_round

    with open_database() as service:
        state = ask_temporal(service.settings, lambda client: PURGE_ROUNDS.progress(client, service.settings, ""))
    if wants_json():
        emit(state)
    else:
        typer.echo(f"the round of topics: {describe_round(state)}")


@app.command("cancel")
def cancel() -> None:
    """End the running round: it starts no further purge. Purges that run go on.

    Example: sexton wal round cancel
    """
    _signal("cancel", "it starts no further purge; purges that run go on")


@app.command("pause")
def pause() -> None:
    """Pause the running round: it starts no purge, and no other round begins, until it is resumed.

    Example: sexton wal round pause
    """
    _signal("pause", "no scheduled purge starts, until: sexton wal round resume")


@app.command("resume")
def resume() -> None:
    """Resume a paused round.

    Example: sexton wal round resume
    """
    _signal("resume", "it continues")


@app.command("retry")
def retry() -> None:
    """Let a round that is backing off try again now.

    Example: sexton wal round retry
    """
    _signal("retry", "if it is backing off, it tries again now")


def _signal(signal: str, effect: str) -> None:
    from sexton.runtime.temporal.purges import PURGE_ROUNDS

    with open_database() as service:
        send_signal(service, SignalTarget(PURGE_ROUNDS, ""), signal, effect)
