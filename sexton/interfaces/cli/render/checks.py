"""Print checks and their findings."""

from sexton.check.model import CheckReport, FindingType
from sexton.insight.wording import utc
from sexton.interfaces.cli.output import say, show_table

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
    """Print one check: what it listed and read, and the open findings of its instance."""
    run, evidence = report.run, report.run.evidence
    took = "running" if run.ended_at is None else f"{(run.ended_at - run.cutoff) / 1000:,.0f} s"
    say(f"check {run.id} of {run.instance}: {run.state}, begun {utc(run.cutoff)}, {took}")
    for listing in evidence.listings if evidence else ():
        young = f", {listing.young:,} of them too young to be reported as orphans" if listing.young else ""
        say(f"  vault {listing.vault}: {listing.objects + listing.young:,} objects{young}")
    if evidence is not None and evidence.live is not None:
        prefixes = f", {evidence.prefixes:,} live prefixes" if evidence.prefixes else ""
        say(f"  records: {evidence.live:,} live files{prefixes}")
    say(
        *(f"  note: {note}" for note in (evidence.notes if evidence else ())),
        *(f"  missing: {missing_input}" for missing_input in run.missing_inputs),
        run.missing_inputs and "  so the check confirms nothing, and ends no finding",
    )
    rows = [(t, n, report.confirmed.get(t, 0), MEANING[FindingType(t)]) for t, n in report.found.items()]
    show_table(("open", "findings", "confirmed", "what it means"), rows)
    if rows:
        say(f"see: sexton check findings {run.instance}")
    elif report.whole and evidence is not None:
        is_old = any(listing.objects for listing in evidence.listings)
        none = "metadata and objects agree" if is_old else "no object was old enough to be judged as an orphan"
        say(f"nothing open: {none}")
