"""Print rounds."""

from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import excluded_vaults, first_line, freed, time_left, utc, utc_column
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.report import show_report
from sexton.interfaces.cli.render.running import expected_text

if TYPE_CHECKING:
    from sexton.operations.rounds import RoundDetails
    from sexton.recycle.rounds.model import RoundRow


def round_row(r: "RoundRow") -> tuple[object, ...]:
    """Return a round as a row."""
    took = f"{(r.ended_at - r.started_at) / 1000:,.0f} s" if r.ended_at is not None else "-"
    times = (utc_column(r.started_at), took)
    if r.report is None:
        return r.id, r.instance, r.state, *times, "", "", first_line(r.waiting or "")
    note = r.report.error or ("observed only" if r.report.observed else excluded_vaults(r.report))
    size = r.report.bytes_freed + r.report.bytes_estimated
    numbers = (r.report.deleted, freed(size, r.report.size_unknown))
    return r.id, r.instance, r.report.state, *times, *numbers, first_line(note)


def show_round(details: "RoundDetails") -> None:
    """Print the report of a round, or how far it is."""
    row, counts = details.round, details.progress
    if row.report is not None:
        show_report(row.report)
        return
    typer.echo(f"round {row.id} of {row.instance}: {row.state}, begun {utc(row.started_at)}, no report")
    if counts is not None:
        columns = ("kind", "due", "claimed", "removed", "planned objects", "listed", "gone")
        kinds = [
            (k.kind, k.due, k.claimed, k.removed, f"{'~' if k.estimated else ''}{k.planned:,}", k.listed, k.objects)
            for k in counts.kinds
        ]
        show_table("", columns, kinds)
        if counts.expected:
            typer.echo(f"{counts.objects:,} of {expected_text(counts)} objects gone{time_left(counts.seconds_left)}")
    if row.waiting:
        typer.echo(f"it has had no lease since {utc(row.waiting_since)}: {row.waiting}")
    elif row.ended_at is not None:
        typer.echo("it was cut off; a later round took over and finished the marks that it had claimed")
