"""Print rounds: the report of each, or how far it is."""

from typing import TYPE_CHECKING

from sexton.insight.wording import kept_counts, quantity, time_left, utc
from sexton.interfaces.cli.output import say
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
    say(f"round {row.id} of {row.instance}: {row.state}, begun {utc(row.started_at)}, no report")
    if counts is not None:
        show_rows(counts.kinds)
        if counts.expected:
            say(f"{counts.objects:,} of {expected_text(counts)} objects gone{time_left(counts.seconds_left)}")
    if row.waiting:
        say(f"it has had no lease since {utc(row.waiting_since)}: {row.waiting}")
    elif row.ended_at is not None:
        say("it was cut off; a later round took over and finished the marks that it had claimed")


def show_report(report: "RoundReport") -> None:
    """Print a report: what was due and deleted, by kind and by vault, what was kept and why, and what failed."""
    if not report.round:
        say(f"no round of {report.instance} began: {report.state}, {report.error}")
        return
    counts = f"{report.due} due, {report.claimed} claimed, {report.deleted} deleted"
    if report.observed:
        counts = f"observed only, {report.due} due"
    say(f"round {report.round} of {report.instance}: {report.state}, {counts}")
    leases = f", under {report.leases} leases" if report.leases > 1 else ""
    if leases and report.lost_leases:
        leases += f", {report.lost_leases} of them lost"
    if report.started_at and report.ended_at:
        say(f"from {utc(report.started_at)} to {utc(report.ended_at)}{leases}")
    show_rows(report.kinds)
    before = f"before that, {report.adoption_ms / 1000:.1f} s"
    say(report.adoption_ms and f"{before} for marks that earlier rounds had claimed")
    show_rows(report.tallies)
    for kind in report.kinds:
        say(
            kind.kept and f"{kind.kind}: kept {kept_counts(kind.kept)}",
            kind.error and f"{kind.kind}: error: {kind.error}",
            kind.note and f"{kind.kind}: {kind.note}",
        )
    waits = sorted(kept for kept in report.kept if kept.reason is KeepReason.APPROVAL)
    plans = f"awaits approval: sexton plan list {report.instance}"
    states = ", ".join(f"{name} {state}" for name, state in sorted(report.vaults.items()))
    see = f"see: sexton quarantine list {report.instance}"
    unfinished = f"claimed and not finished: {quantity(report.waiting, 'mark')}"
    say(
        f"kept: {kept_counts(report.kept)}",
        *(f"{plans}, then {way_out(kept, report.instance)}" for kept in waits),
        states and f"vaults: {states}",
        report.quarantined and f"quarantined in this round: {report.quarantined}; {see}",
        report.waiting and f"{unfinished}; the next round deletes what is left of them",
    )
    if report.error and report.error != report.state.lower():
        label = report.state.lower() if report.state in ("CANCELLED", "STOPPED") else "error"
        say(f"{label}: {report.error}", err=True)
