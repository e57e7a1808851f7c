"""Print checks and their findings."""

import typer

from sexton.check.model import CheckReport, FindingType, Run
from sexton.insight.wording import utc
from sexton.interfaces.cli.output import show_table
from sexton.kernel.printable import printable

MEANING = {
    FindingType.LOST: "a record names the object, and it does not exist",
    FindingType.SIZE_MISMATCH: "the record names another size",
    FindingType.ORPHAN: "no record names the object",
    FindingType.UNKNOWN_KIND: "no record names the object, and its key is not one of the owner's: never deleted",
    FindingType.UPLOAD: "uploads that were never finished",
    FindingType.RECORD: "records that contradict each other",
    FindingType.FRONT_END: "the front end's memory and the records disagree",
}


def show_report(report: CheckReport) -> None:
    """Print one check, and the open findings of its instance."""
    run = report.run
    typer.echo(f"check {run.id} of {run.instance}: {run.state}, begun {utc(run.cutoff)}, {_duration(run)}")
    _show_evidence(run)
    for missing_input in run.missing_inputs:
        typer.echo(f"  missing: {printable(missing_input)}")
    if run.missing_inputs:
        typer.echo("  so the check confirms nothing, and ends no finding")
    rows = [(t, n, report.confirmed.get(t, 0), MEANING[FindingType(t)]) for t, n in report.found.items()]
    show_table("" if rows else _without_findings(report), ("open", "findings", "confirmed", "what it means"), rows)
    if rows:
        typer.echo(f"see: sexton check findings {run.instance}")


def _without_findings(report: CheckReport) -> str:
    """Return what it means that nothing is open."""
    evidence = report.run.evidence
    if not report.whole or evidence is None:
        return ""
    if any(listing.objects for listing in evidence.listings):
        return "nothing open: metadata and objects agree"
    return "nothing open: no object was old enough to be judged as an orphan"


def _show_evidence(run: Run) -> None:
    """Print what the check listed and read."""
    evidence = run.evidence
    if evidence is None:
        return
    for listing in evidence.listings:
        young = f", {listing.young:,} of them too young to be reported as orphans" if listing.young else ""
        typer.echo(f"  vault {listing.vault}: {listing.objects + listing.young:,} objects{young}")
    if evidence.live is not None:
        prefixes = f", {evidence.prefixes:,} live prefixes" if evidence.prefixes else ""
        typer.echo(f"  records: {evidence.live:,} live files{prefixes}")
    for note in evidence.notes:
        typer.echo(f"  note: {printable(note)}")


def _duration(run: Run) -> str:
    return "running" if run.ended_at is None else f"{(run.ended_at - run.cutoff) / 1000:,.0f} s"
