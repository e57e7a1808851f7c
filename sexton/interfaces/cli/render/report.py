"""How a round's report is printed."""

import typer

from sexton.interfaces.cli.output import counts, dump, many, show, size, when
from sexton.marks.keepers import KeepReason, way_out
from sexton.recycle.model import SUCCEEDED, RoundReport


def show_report(r: RoundReport) -> None:
    """Print a report: what was due and went, by kind and by vault, what was kept by whom, and what went wrong."""
    if not r.round:
        typer.echo(f"no round of {r.instance} began: {r.state}, {r.error}")
        return
    seen = f"observed only, {r.due} due" if r.observed else f"{r.due} due, {r.claimed} claimed, {r.deleted} deleted"
    typer.echo(f"round {r.round} of {r.instance}: {r.state}, {seen}")
    if r.started_at and r.ended_at:
        typer.echo(f"from {when(r.started_at)} to {when(r.ended_at)}{_leases(r)}")
    rows = [
        (k.kind, k.due, k.claimed, k.removed, k.deleted, size(k.bytes), f"{k.elapsed_ms / 1000:.1f}") for k in r.kinds
    ]
    show("", ("kind", "due", "claimed", "removed", "deleted", "bytes", "seconds"), rows)
    if rows:
        typer.echo("")
    parts = [
        (t.kind, t.vault, t.deleted, t.absent, t.hidden, t.failed, size(t.bytes_freed), size(t.bytes_estimated))
        for t in r.tallies
    ]
    show("", ("kind", "vault", "deleted", "absent", "hidden", "failed", "freed", "estimated"), parts)
    if parts:
        typer.echo("")
    for k in r.kinds:
        if k.kept:
            typer.echo(f"{k.kind}: kept {counts(k.kept)}")
        if k.error:
            typer.echo(f"{k.kind}: error: {k.error}")
        if k.note:
            typer.echo(f"{k.kind}: {k.note}")
    typer.echo(f"kept: {counts(r.kept)}")
    for kept in sorted(r.kept):
        if kept.reason is KeepReason.APPROVAL:
            typer.echo(f"awaits approval: sexton plan --list {r.instance}, then {way_out(kept, r.instance)}")
    if r.vaults:
        typer.echo(f"vaults: {', '.join(f'{name} {status}' for name, status in sorted(r.vaults.items()))}")
    if r.quarantined:
        typer.echo(f"set aside in this round: {r.quarantined}; see: sexton quarantine list {r.instance}")
    if r.waiting:
        begun = f", {many(r.begun, 'object')} of them gone already and counted then" if r.begun else ""
        typer.echo(f"claimed and not finished: {many(r.waiting, 'mark')}; the next round tries them again{begun}")
    if r.error and r.error != r.state.lower():
        typer.echo(f"{'error' if r.state not in ('CANCELLED', 'STOPPED') else r.state.lower()}: {r.error}", err=True)


def succeeded(r: RoundReport) -> bool:
    """Return whether what could go went, and nothing needs a look."""
    return r.state == SUCCEEDED and not (r.failed or r.waiting or r.faults)


def _leases(r: RoundReport) -> str:
    if r.leases < 2:
        return ""
    lost = f", {r.lost_leases} of them lost" if r.lost_leases else ""
    return f", under {r.leases} leases{lost}"


def end(r: RoundReport, as_json: bool) -> None:
    """Print the report of a round that was waited for; exit code 1 unless all went that could go."""
    if as_json:
        dump(r.model_dump(mode="json"))
    else:
        show_report(r)
    if not succeeded(r):
        raise typer.Exit(1)
