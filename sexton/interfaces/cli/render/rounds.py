"""Print rounds: the report of each, or how far it is."""

from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import kept_counts, quantity, time_left, utc
from sexton.interfaces.cli.render.results import show_rows
from sexton.interfaces.cli.render.running import expected_text
from sexton.marks.keepers import KeepReason, way_out

if TYPE_CHECKING:
    from sexton.operations.rounds import RoundDetails
    from sexton.recycle.model import RoundReport


def show_round(details: "RoundDetails") -> None:
    """Print the report of a round, or how far it is."""
    row, counts = details.round, details.progress
    if row.report is not None:
        show_report(row.report)
        return
    typer.echo(f"round {row.id} of {row.instance}: {row.state}, begun {utc(row.started_at)}, no report")
    if counts is not None:
        show_rows(counts.kinds)
        if counts.expected:
            typer.echo(f"{counts.objects:,} of {expected_text(counts)} objects gone{time_left(counts.seconds_left)}")
    if row.waiting:
        typer.echo(f"it has had no lease since {utc(row.waiting_since)}: {row.waiting}")
    elif row.ended_at is not None:
        typer.echo("it was cut off; a later round took over and finished the marks that it had claimed")


def show_report(report: "RoundReport") -> None:
    """Print a report: what was due and deleted, by kind and by vault, what was kept and why, and what failed."""
    if not report.round:
        typer.echo(f"no round of {report.instance} began: {report.state}, {report.error}")
        return
    counts = f"{report.due} due, {report.claimed} claimed, {report.deleted} deleted"
    if report.observed:
        counts = f"observed only, {report.due} due"
    typer.echo(f"round {report.round} of {report.instance}: {report.state}, {counts}")
    leases = f", under {report.leases} leases" if report.leases > 1 else ""
    if leases and report.lost_leases:
        leases += f", {report.lost_leases} of them lost"
    if report.started_at and report.ended_at:
        typer.echo(f"from {utc(report.started_at)} to {utc(report.ended_at)}{leases}")
    show_rows(report.kinds)
    if report.adoption_ms:
        typer.echo(f"before that, {report.adoption_ms / 1000:.1f} s for marks that earlier rounds had claimed")
    show_rows(report.tallies)
    _show_kept(report)
    _show_problems(report)


def _show_kept(report: "RoundReport") -> None:
    for k in report.kinds:
        if k.kept:
            typer.echo(f"{k.kind}: kept {kept_counts(k.kept)}")
        if k.error:
            typer.echo(f"{k.kind}: error: {k.error}")
        if k.note:
            typer.echo(f"{k.kind}: {k.note}")
    typer.echo(f"kept: {kept_counts(report.kept)}")
    for kept in sorted(report.kept):
        if kept.reason is KeepReason.APPROVAL:
            apply = way_out(kept, report.instance)
            typer.echo(f"awaits approval: sexton plan list {report.instance}, then {apply}")


def _show_problems(report: "RoundReport") -> None:
    if report.vaults:
        states = ", ".join(f"{name} {state}" for name, state in sorted(report.vaults.items()))
        typer.echo(f"vaults: {states}")
    if report.quarantined:
        typer.echo(f"quarantined in this round: {report.quarantined}; see: sexton quarantine list {report.instance}")
    if report.waiting:
        marks = quantity(report.waiting, "mark")
        typer.echo(f"claimed and not finished: {marks}; the next round deletes what is left of them")
    if report.error and report.error != report.state.lower():
        label = report.state.lower() if report.state in ("CANCELLED", "STOPPED") else "error"
        typer.echo(f"{label}: {report.error}", err=True)
