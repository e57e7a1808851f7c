"""Print the status of instances, topics and binlogs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import (
    excluded_vaults,
    first_line,
    human_bytes,
    kept_counts,
    quantity,
    time_left,
    utc,
    utc_column,
)
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.running import expected_text
from sexton.kernel.printable import printable
from sexton.marks.keepers import KeepReason, vault_way_out
from sexton.recycle.model import NO_FAULT

if TYPE_CHECKING:
    from sexton.insight.metrics.model import WalFigures
    from sexton.insight.views import InstanceStatus, Running, RunningWork
    from sexton.operations.control import Status
    from sexton.replication.binlog.model import LogCounts

MOST_PURGES = 5


def show_status(status: "Status") -> None:
    """Print every instance, and what belongs to no one instance."""
    if status.instances:
        typer.echo(f"{status.slots_used} of {status.slots} slots for rounds are in use\n")
    else:
        typer.echo("no instance is registered; begin with: sexton instance add NAME")
    for row in status.instances:
        show_instance(row)
    if status.topics is not None and status.topics.topics:
        show_topics(status.topics)
        show_purges(status.running)
    if status.binlogs is not None and status.binlogs.databases:
        show_binlogs(status.binlogs)
    for token in status.expiring_tokens:
        typer.echo(f"token {token.token} ({token.scope}) is in use and ends {utc(token.expires_at)}")
        typer.echo(f"  renew it: sexton token renew {token.token}")
    if status.temporal:
        typer.echo(f"Temporal UI: {status.temporal}")
        for work, link in zip(status.running, status.links, strict=True):
            typer.echo(f"  {work.work} {work.name} of {work.instance}: {link}")


def show_instance(i: "InstanceStatus") -> None:
    """Print one instance."""
    _show_state(i)
    _show_marks(i)
    _show_approvals(i)
    _show_blockers(i)
    _show_last_round(i)
    typer.echo(f"  checks: {_checks(i)}")
    if not i.shows_live_objects:
        typer.echo("  no live view: nothing looks for live objects before a deletion, checks find")
        typer.echo("    no loss, and max_delete_fraction is not in force")
        typer.echo("    see: sexton instance live-view --help")
    if i.checked.prefixes:
        typer.echo(f"  not checked: loss inside a prefix; {i.checked.prefixes:,} live rows name prefixes, not objects")
    typer.echo("")


def show_topics(figures: "WalFigures") -> None:
    """Print all topics in one line."""
    problems = []
    if figures.quarantined:
        problems.append(f"{figures.quarantined} QUARANTINED")
    if figures.faulty:
        problems.append(f"{figures.faulty} with a fault")
    if figures.lost_regions:
        problems.append(f"LOSS in {quantity(figures.lost_regions, 'region')}")
    if figures.lagging_regions:
        problems.append(f"{quantity(figures.lagging_regions, 'region')} far behind")
    problems += [f"{count} {reason}" for reason, count in figures.blocked.items() if count]
    entries = f"{figures.entries:,} entries kept, about {human_bytes(figures.bytes)}"
    state = ", ".join(problems) or "none is blocked"
    typer.echo(f"topics: {figures.topics} purged, {entries}; {state}; see: sexton wal list\n")


def show_purges(running: "Sequence[RunningWork]") -> None:
    """Print the purges of topics that have not ended, a few of them by name."""
    purges = [work for work in running if work.work == "purge"]
    for work in purges[:MOST_PURGES]:
        typer.echo(f"  purge of {printable(work.name)}, since {utc(work.since)}: {work.state}")
    if len(purges) > MOST_PURGES:
        typer.echo(f"  and {len(purges) - MOST_PURGES:,} more purges")
    if purges:
        typer.echo("")


def show_binlogs(counts: "LogCounts") -> None:
    """Print all binlogs in one line."""
    problems = []
    if counts.waiting:
        problems.append(f"{quantity(counts.waiting, 'cut')} waiting for approval")
    if counts.held:
        problems.append(f"{counts.held} blocked by consumers")
    if counts.lost:
        problems.append(f"{quantity(counts.lost, 'consumer')} LOST")
    if counts.refused:
        problems.append(f"clock refused in {quantity(counts.refused, 'instance')}")
    if counts.behind:
        problems.append(f"{quantity(counts.behind, 'backend')} behind (sexton replica backends)")
    records = f"{quantity(counts.records, 'record')} kept, {human_bytes(counts.bytes)}"
    state = ", ".join(problems) or "nothing waits"
    typer.echo(f"binlogs: {quantity(counts.logs, 'log')}, {records}; {state}; see: sexton binlog list\n")


def _show_state(i: "InstanceStatus") -> None:
    typer.echo(f"{i.instance}: {i.mode}, {_running(i.running) if i.running else 'no round is running'}")
    if i.mode == "observe":
        typer.echo(f"  its rounds delete nothing until: sexton enable {i.instance}")
    if i.halt is not None:
        since = f" since {utc(i.halt.since)}" if i.halt.since else ""
        until = f" ({utc(i.halt.until)})" if i.halt.until else ""
        typer.echo(f"  halted{since}: {printable(str(i.halt))}{until}")
    elif i.next_round is not None:
        next_round = "due now" if i.next_round <= i.now else utc(i.next_round)
        typer.echo(f"  next round: {next_round}, if the schedule is active (sexton schedules list)")


def _show_marks(i: "InstanceStatus") -> None:
    rows = [
        (
            f"  {k.kind}",
            k.waiting,
            k.due,
            human_bytes(k.due_bytes),
            utc_column(k.oldest),
            utc_column(k.next_due),
            k.note,
        )
        for k in i.kinds
    ]
    if not rows:
        typer.echo("  no mark waits")
    show_table("", ("  kind", "marked", "due", "due bytes", "oldest (UTC)", "next due (UTC)", ""), rows)
    if i.more_kinds:
        typer.echo(f"  and at least {i.more_kinds:,} more kinds without a retention, whose marks are kept")
    second_pass = f" ({quantity(i.late, 'prefix', 'prefixes')} of them: second pass later)" if i.late else ""
    typer.echo(f"  claimed, not yet deleted: {i.claimed}{second_pass}")
    see = f"; see: sexton quarantine list {i.instance}" if i.quarantined else ""
    typer.echo(f"  quarantined: {kept_counts(i.quarantined)}{see}")


def _show_approvals(i: "InstanceStatus") -> None:
    for plan in i.approvals:
        kinds = ", ".join(plan.kinds)
        typer.echo(f"  waits for approval since {utc(plan.since)}, until {utc(plan.expires_at)}: {kinds}")
        typer.echo(f"    {printable(plan.awaits)}")


def _show_blockers(i: "InstanceStatus") -> None:
    for cap in i.caps:
        reason = f" ({cap.reason})" if cap.reason else ""
        limit = f"no more than {cap.keys_per_second:,} keys/s in vault {cap.vault}"
        typer.echo(f"  paced: {limit}{printable(reason)}; see: sexton pace")
    if i.protections:
        kept = f", which kept {human_bytes(i.last.protected_bytes)} in the last round" if i.last else ""
        typer.echo(f"  protections: {i.protections}{printable(kept)}; see: sexton protection list {i.instance}")
    if i.holds:
        typer.echo(f"  holds: {i.holds}; see: sexton blockers {i.instance}")


def _show_last_round(i: "InstanceStatus") -> None:
    success = utc(i.last_success) if i.last_success else "never"
    failures = f", {quantity(i.failures, 'round')} without success since" if i.failures else ""
    typer.echo(f"  last success: {success}{failures}")
    if i.last is None:
        typer.echo("  last round: none yet")
        return
    report = i.last
    result = "observed only" if report.observed else f"deleted {report.deleted}, failed {report.failed}"
    typer.echo(f"  last round: {report.round} at {utc(i.last_ended)} {report.state}, {result}")
    if faults := excluded_vaults(report):
        failed = "it counts as failed; " if report.faults else ""
        see = vault_way_out(", ".join(sorted(set(report.vaults.values()).difference(NO_FAULT))), i.instance)
        typer.echo(f"  vaults it excluded: {faults}; {failed}see: {see}")
    typer.echo(f"  it kept: {kept_counts(report.kept)}")
    if any(kept.reason is KeepReason.OWNER_SILENT for kept in report.kept):
        typer.echo(f"  its owner did not answer; it counts as failed; see: sexton blockers {i.instance}")
    if report.error:
        typer.echo(f"  last error: {first_line(report.error)}")


def _checks(i: "InstanceStatus") -> str:
    checked = i.checked
    parts = [f"one is running since {utc(checked.running_since)}"] if checked.running_since else []
    if checked.last is None:
        return "; ".join([*parts, f"none has ended; to run one: sexton check run {i.instance}"])
    if checked.lost:
        parts.insert(0, f"{checked.lost:,} LOST, confirmed: sexton check findings {i.instance} --type LOST")
    last = "" if checked.last == "WHOLE" else f", the last was {checked.last}: sexton check list {i.instance}"
    return "; ".join([*parts, f"the last complete one: {utc(checked.whole) if checked.whole else 'none'}{last}"])


def _progress(r: "Running") -> str:
    """Return how far a running round is, as far as its rows show it."""
    counts = r.progress
    if not counts.expected:
        return ""
    return f": {counts.objects:,} of {expected_text(counts)} objects deleted{time_left(counts.seconds_left)}"


def _running(r: "Running") -> str:
    name = f"round {r.round}" if r.round else "a round"
    if r.cut_off:
        return (
            f"{name} lost its lease: no worker has it (sexton doctor), or it is paused in Temporal (sexton blockers). "
            "It continues when a worker takes it; if its workflow no longer exists, the next round takes over"
        )
    if r.leased:
        return f"{name} is running since {utc(r.since)}{_progress(r)}"
    if r.waiting:
        return f"{name} has had no lease since {utc(r.waiting_since)}: {first_line(r.waiting)}"
    return f"{name}, begun {utc(r.since)}, has no lease now"
