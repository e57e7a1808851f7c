"""`sexton binlog gc`: a look at an instance's binlogs now, and what a running one may be told."""

from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.commands.binlog import Of
from sexton.interfaces.cli.context import Json, ask_temporal, one_instance, opened, recorded
from sexton.interfaces.cli.output import dump, many, size

if TYPE_CHECKING:
    from sexton.replication.binlog.messages import GcReport


def gc(instance: Of = None, as_json: Json = False) -> None:
    """Look at an instance's binlogs now: cut what has expired, have backends let go. Prints what came of it.

    Ctrl-C stops waiting, not the look. Exit code 1: nothing was cut, for its clock, a stop, or because it observes.

    Example: sexton binlog gc
    """
    from sexton.replication.binlog.messages import GcRequest
    from sexton.runtime.temporal.binlogs import BINLOG_GCS

    with opened() as (settings, db):
        of = one_instance(db, instance)
        with recorded(db, "binlog gc", of):
            request = GcRequest(deployment=settings.require_deployment(), instance=of, requested_by="cli")
            report = BINLOG_GCS.run(settings, request, lambda told: typer.echo(told, err=True))
    if as_json:
        dump(report.model_dump(mode="json"))
    else:
        _show(report)
    if report.cut.refused or report.cancelled:
        raise typer.Exit(1)


def progress(instance: Of = None, as_json: Json = False) -> None:
    """Print what the running look at an instance's binlogs does.

    Example: sexton binlog progress
    """
    from sexton.runtime.temporal.binlogs import BINLOG_GCS, describe

    with opened() as (settings, db):
        of = one_instance(db, instance)
        found = ask_temporal(settings, lambda client: BINLOG_GCS.progress(client, settings, of))
    if as_json:
        dump(found.model_dump(mode="json"))
    else:
        typer.echo(f"binlogs of {of}: {describe(found)}")


def cancel(instance: Of = None) -> None:
    """End the running look at an instance's binlogs. What is cut stays cut.

    Example: sexton binlog cancel
    """
    _tell(instance, "cancel", "it ends; what is cut stays cut")


def pause(instance: Of = None) -> None:
    """Pause the running look at an instance's binlogs; no other begins until it goes on.

    Example: sexton binlog pause
    """
    _tell(instance, "pause", "it waits, until: sexton binlog resume")


def resume(instance: Of = None) -> None:
    """Let a paused look go on.

    Example: sexton binlog resume
    """
    _tell(instance, "resume", "it goes on")


def retry(instance: Of = None) -> None:
    """Let a look that backs off try again now.

    Example: sexton binlog retry
    """
    _tell(instance, "retry", "if it backs off, it tries again now")


def _tell(instance: str | None, signal: str, then: str) -> None:
    from sexton.runtime.temporal.binlogs import BINLOG_GCS

    with opened() as (settings, db):
        of = one_instance(db, instance)
        with recorded(db, f"binlog {signal}", of, keeps=signal in ("cancel", "pause")):
            workers = ask_temporal(settings, lambda client: BINLOG_GCS.signal(client, settings, of, signal))
    typer.echo(f"the look at the binlogs of {of} is told: {then}")
    if not workers:
        typer.echo("no worker polls: it is heeded when one does (python -m worker)", err=True)


def _show(report: "GcReport") -> None:
    cut, swept = report.cut, report.swept
    ended = ", and was cancelled" if report.cancelled else ""
    typer.echo(f"binlogs of {report.instance}: {many(cut.cut, 'log')} cut, {many(cut.records, 'record')}{ended}")
    if cut.refused:
        typer.echo(f"  nothing was cut: {cut.refused}")
    if cut.held:
        typer.echo(f"  {many(cut.held, 'log')} held by consumers; see: sexton binlog list")
    if cut.waiting:
        typer.echo(f"  {many(cut.waiting, 'cut')} too large to go unasked; see: sexton binlog list")
    if cut.lost:
        typer.echo(f"  {many(cut.lost, 'consumer')} LOST since now; see: sexton binlog consumers")
    if cut.full_copy:
        typer.echo(f"  {many(cut.full_copy, 'replica')} FULL_COPY_ONLY since now; see: sexton replica list")
    if report.backends:
        gone = f"{many(swept.files, 'file')} ({size(swept.bytes)}) and {many(swept.keys, 'key')} gone"
        typer.echo(f"  {many(report.backends, 'backend')} asked: {gone} of {many(swept.tablets, 'tablet')}")
    if report.away:
        typer.echo(f"  {report.away} of them did not answer; they ask by themselves when they are back")
    if swept.unknown or swept.quarantined or swept.failed:
        wrong = f"{swept.unknown:,} unknown, {swept.quarantined:,} quarantined, {swept.failed:,} failed"
        typer.echo(f"  tablets that did not let go: {wrong}; see: sexton replica list")
    for told in (*report.said, *swept.said):
        typer.echo(f"  {told}")
