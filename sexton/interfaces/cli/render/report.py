"""Print a round's report."""

import typer

from sexton.insight.wording import freed, human_bytes, kept_counts, quantity, utc
from sexton.interfaces.cli.output import show_table
from sexton.marks.keepers import KeepReason, way_out
from sexton.recycle.model import SUCCEEDED, RoundReport


def show_report(report: RoundReport) -> None:
    """Print a report: what was due and deleted, by kind and by vault, what was kept and why, and what failed."""
    if not report.round:
        typer.echo(f"no round of {report.instance} began: {report.state}, {report.error}")
        return
    counts = f"{report.due} due, {report.claimed} claimed, {report.deleted} deleted"
    if report.observed:
        counts = f"observed only, {report.due} due"
    typer.echo(f"round {report.round} of {report.instance}: {report.state}, {counts}")
    if report.started_at and report.ended_at:
        typer.echo(f"from {utc(report.started_at)} to {utc(report.ended_at)}{_leases(report)}")
    _show_kinds(report)
    _show_vaults(report)
    _show_kept(report)
    _show_problems(report)


def succeeded(report: RoundReport) -> bool:
    """Return whether everything that could be deleted was deleted, and nothing failed."""
    return report.state == SUCCEEDED and not (report.failed or report.waiting or report.faults)


def _leases(report: RoundReport) -> str:
    if report.leases < 2:
        return ""
    lost = f", {report.lost_leases} of them lost" if report.lost_leases else ""
    return f", under {report.leases} leases{lost}"


def _show_kinds(report: RoundReport) -> None:
    rows = [
        (k.kind, k.due, k.claimed, k.removed, k.deleted, freed(k.bytes, k.size_unknown), f"{k.elapsed_ms / 1000:.1f}")
        for k in report.kinds
    ]
    show_table("", ("kind", "due", "claimed", "removed", "deleted", "freed", "seconds"), rows)
    if report.adoption_ms:
        typer.echo(f"before that, {report.adoption_ms / 1000:.1f} s for marks that earlier rounds had claimed")
    if rows:
        typer.echo("")


def _show_vaults(report: RoundReport) -> None:
    rows = [
        (
            t.kind,
            t.vault,
            t.deleted,
            t.absent,
            t.hidden,
            t.failed,
            freed(t.bytes_freed + t.bytes_estimated, t.size_unknown),
            human_bytes(t.bytes_estimated),
        )
        for t in report.tallies
    ]
    show_table("", ("kind", "vault", "deleted", "absent", "hidden", "failed", "freed", "estimated part"), rows)
    if rows:
        typer.echo("")


def _show_kept(report: RoundReport) -> None:
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


def _show_problems(report: RoundReport) -> None:
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
