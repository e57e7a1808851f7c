"""Print plans, rounds and checks: the report of each, or how far it is, at which rate, and what blocks it."""

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING

from sexton.check.model import MEANING, CheckReport, FindingType
from sexton.insight.wording import (
    MOST_KINDS,
    check_text,
    expected_text,
    first_line,
    gone_text,
    kept_counts,
    kind_text,
    quantity,
    report_text,
    time_left,
    utc,
)
from sexton.interfaces.cli.output import say, show_table
from sexton.interfaces.cli.render.results import show_rows
from sexton.kernel.printable import printable
from sexton.marks.kept import KeepReason, way_out
from sexton.recycle.planning.model import Estimate, Plan

if TYPE_CHECKING:
    from sexton.insight.marks import PlanDetails, PlanReview
    from sexton.insight.views import RecentRate, RoundCounts, RunningWork
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
            say(gone_text(counts))
    if row.waiting:
        say(f"it has had no lease since {utc(row.waiting_since)}: {row.waiting}")


def show_report(report: "RoundReport") -> None:
    """Print a report: what was due and deleted, by kind and by vault, what was kept and why, and what failed."""
    if not report.round:
        say(f"no round of {report.instance} began: {report.state}, {report.error}")
        return
    say(f"round {report.round} of {report.instance}: {report.state}, {report_text(report)}")
    leases = f", under {report.leases} leases" if report.leases > 1 else ""
    if leases and report.lost_leases:
        leases += f", {report.lost_leases} of them lost"
    if report.started_at and report.ended_at:
        say(f"from {utc(report.started_at)} to {utc(report.ended_at)}{leases}")
    show_rows(report.kinds)
    before = f"before that, {report.adoption_ms / 1000:.1f} s for marks that earlier rounds had claimed"
    say(report.adoption_ms and ": ".join(filter(None, (before, report.adoption_note))))
    show_rows(report.tallies)
    for kind in report.kinds:
        say(
            kind.kept and f"{kind.kind}: kept {kept_counts(kind.kept)}",
            kind.error and f"{kind.kind}: error: {kind.error}",
            kind.note and f"{kind.kind}: {kind.note}",
        )
    waits = sorted(kept for kept in report.kept if kept.reason is KeepReason.APPROVAL)
    plans = f"awaits approval: sexton plan list {report.instance}"
    states = "; ".join(f"{name} {report.vault_fault(name) or state}" for name, state in sorted(report.vaults.items()))
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


def show_check(report: CheckReport) -> None:
    """Print one check: what it listed and read, and the open findings of its instance."""
    run, evidence = report.run, report.run.evidence
    took = "running" if run.ended_at is None else f"{(run.ended_at - run.cutoff) / 1000:,.0f} s"
    say(f"check {run.id} of {run.instance}: {run.state}, begun {utc(run.cutoff)}, {took}")
    say(run.ended_at is None and f"  {check_text(run)}")
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


def lines_of(work: "RunningWork", rate: "RecentRate") -> list[str]:
    """Return the lines of one running work."""
    kinds = [k for k in work.progress.kinds if k.due or k.expected]
    lines = [one_line(work, rate), *(f"  {printable(kind_text(kind))}" for kind in kinds[:MOST_KINDS])]
    if len(kinds) > MOST_KINDS:
        lines.append(f"  and {len(kinds) - MOST_KINDS:,} more kinds")
    if work.progress.kept:
        lines.append(f"  kept so far: {kept_counts(work.progress.kept)}; see: sexton blockers {work.instance}")
    return lines


def one_line(work: "RunningWork", rate: "RecentRate") -> str:
    """Return one running work as one line, with the sums over its kinds."""
    parts = [f"{work.work} {printable(work.name)} of {work.instance}, {dt.timedelta(seconds=work.elapsed_ms // 1000)}"]
    if work.work == "round":
        parts.append(progress_text(work.progress, rate))
    if work.check is not None:
        parts.append(check_text(work.check))
    if work.state:
        parts.append(first_line(work.state))
    return ": ".join(part for part in parts if part)


def progress_text(counts: "RoundCounts", rate: "RecentRate") -> str:
    """Return how many objects are gone, of how many, at which rate, and how long the rest takes at this rate."""
    if not counts.expected:
        return "nothing is listed or deleted yet"
    share = "" if counts.is_guess else f" ({counts.objects / counts.expected:.0%})"
    text = f"{counts.objects:,} of {expected_text(counts)} objects gone{share}"
    if rate.per_second is None:
        return text
    return f"{text}, {rate.per_second:,.0f}/s{time_left(rate.seconds_left(counts))}"


def show_plan(plan: Plan, cost: Estimate) -> None:
    """Print the contents of a plan, what it leaves out, what waits for approval, and its cost."""
    say(f"plan {plan.id or '(empty, not stored)'} of {plan.instance}, policy {plan.policy.version}")
    show_rows(plan.kinds)
    if plan.kinds:
        minutes = "less than a minute" if cost.minutes < 1 else f"~{cost.minutes:,.0f} minutes"
        rate = "less than 1" if cost.keys_per_second < 1 else f"{cost.keys_per_second:,.0f}"
        requests = f"{cost.delete_requests:,} DELETE and {cost.list_requests:,} LIST requests"
        money = f"~{cost.money:,.2f} {cost.currency}"
        say(
            "bytes are as reported by the owner; marks of the kind that are older than `before` are deleted",
            f"about {quantity(cost.objects, 'object')}: {requests}, {money}, {minutes} at {rate} objects/s",
        )
    keep_counts = Counter(plan.kept)
    for held in (held for kind in plan.kinds for held in kind.held):
        keep_counts[held.kept] += held.marks
    say(keep_counts and f"kept: {kept_counts(keep_counts)}")
    if plan.held.marks:  # held only for as long as holds block it
        say(
            f"at most {quantity(plan.objects, 'object')}: {plan.held.objects:,} of them, in "
            f"{quantity(plan.held.marks, 'mark')}, were held when it was made, and are deleted, too, if the holds end"
        )
    say(plan.claimed and f"claimed by earlier rounds and finished first: {plan.claimed}")
    say(*(f"not deleted without approval: {kind.awaits}" for kind in plan.kinds if kind.awaits))
    say(plan.note and f"note: {plan.note}")
    if any(kind.estimated for kind in plan.kinds):
        count = f"to list them: sexton plan {plan.instance} --count"
        say(f"~ is an estimate, which may be far too low: no listing has counted the prefixes; {count}")
    checked = "vaults, holds, protections and live objects are checked when it is applied"
    say(plan.marks and f"these marks at most: {checked}")


def show_review(review: "PlanReview") -> None:
    """Print a stored plan: its state, its numbers as they were then, what blocks it now, and samples of its marks."""
    row, plan = review.row, review.plan
    answer = f", answered {utc(row.approved_at)} by {row.approved_by}" if row.approved_at else ""
    say(f"{row.state}, made {utc(row.created_at)} by {row.planned_by}{answer}")
    show_plan(plan, review.estimate)
    say(
        *(f"{hold.kept} blocks {hold.what} until {utc(hold.expires_at)}" for hold in review.holds),
        review.observes and f"{plan.instance} only observes: sexton enable {plan.instance}",
        review.halt and f"nothing can be deleted now: {review.halt}",
        review.for_good,
    )
    if review.marks:
        say("the first marks of each kind that are due now:")
        show_rows(review.marks, "plan marks")
        say(f"all of them: sexton plan marks {plan.id}; those under a prefix: --under PREFIX")
    elif plan.kinds:
        say("no mark of it is due now: they were undropped, claimed, deleted or quarantined")


def show_details(details: "PlanDetails") -> None:
    """Print a new plan, what to do next, and what blocks it."""
    plan = details.plan
    show_plan(plan, details.estimate)
    if not plan.marks:
        later = f"the next mark ({details.next_kind}) is due at {utc(details.next_due_at)}"
        say(f"nothing new is due; {later if details.next_due_at is not None else 'no mark waits'}")
    elif not sum(kind.unheld.marks for kind in plan.kinds):
        say(f"holds block everything that is due; see: sexton blockers {plan.instance}")
    elif details.observes:
        say(f"{plan.instance} only observes; to delete: sexton enable {plan.instance}, sexton apply {plan.id}")
    else:
        say(f"to delete exactly this: sexton apply {plan.id}")
    say(*(f"{hold.kept} blocks {hold.what}" for hold in details.holds))
    say(details.halt and f"nothing can be deleted now: {details.halt}", details.for_good)
