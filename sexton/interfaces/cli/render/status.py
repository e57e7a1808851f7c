"""Print the status of instances, topics and binlogs.

What follows from a result, and what to do about it: lines that are printed below its fields.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import (
    check_text,
    excluded_vaults,
    first_line,
    gone_text,
    human_bytes,
    kept_counts,
    quantity,
    utc,
)
from sexton.interfaces.cli.output import say
from sexton.interfaces.cli.render.results import show_rows
from sexton.marks.kept import KeepReason, vault_way_out
from sexton.recycle.model import NO_FAULT

if TYPE_CHECKING:
    from sexton.insight.metrics.model import WalFigures
    from sexton.insight.views import InstanceStatus, Running, RunningWork
    from sexton.operations.control import Status
    from sexton.replication.binlog.model import LogCounts

MOST_PURGES = 5


def show_status(status: "Status") -> None:
    """Print whether all is well, every instance, and what belongs to no one instance."""
    say(status.sentence)
    if status.instances:
        typer.echo(f"{status.slots_used} of {status.slots} slots for rounds are in use\n")
    checks = {work.instance: check_text(work.check) for work in status.running if work.check is not None}
    for row in status.instances:
        show_instance(row, checks.get(row.instance, ""))
    if status.topics is not None and status.topics.topics:
        _show_topics(status.topics, [work for work in status.running if work.work == "purge"])
    if status.binlogs is not None and status.binlogs.databases:
        _show_binlogs(status.binlogs)
    for token in status.expiring_tokens:
        say(f"token {token.token} ({token.scope}) is in use and ends {utc(token.expires_at)}")
        say(f"  renew it: sexton token renew {token.token}")
    if status.temporal:
        say(f"Temporal UI: {status.temporal}")
        for work, link in zip(status.running, status.links, strict=True):
            say(f"  {work.work} {work.name} of {work.instance}: {link}")


def show_instance(i: "InstanceStatus", check: str) -> None:
    """Print one instance; ``check``: how far its running check is."""
    say(f"{i.instance}: {i.mode}, {_running(i.running) if i.running else 'no round is running'}")
    say(i.mode == "observe" and f"  its rounds delete nothing until: sexton enable {i.instance}")
    if i.halt is not None:
        since = f" since {utc(i.halt.since)}" if i.halt.since else ""
        until = f" ({utc(i.halt.until)})" if i.halt.until else ""
        say(f"  halted{since}: {i.halt}{until}")
    elif i.overdue_since is not None:
        say(f"  OVERDUE: its round is due since {utc(i.overdue_since)}, and has not begun; see: sexton blockers")
    elif i.next_round is not None:
        next_round = "due now" if i.next_round <= i.now else utc(i.next_round)
        say(f"  next round: {next_round}, if the schedule is active (sexton schedules list)")
    say(not i.kinds and "  no mark waits")
    show_rows(i.kinds)
    second_pass = f" ({quantity(i.late, 'prefix', 'prefixes')} of them: second pass later)" if i.late else ""
    see = f"; see: sexton quarantine list {i.instance}" if i.quarantined else ""
    more = f"  and at least {i.more_kinds:,} more kinds without a retention, whose marks are kept"
    say(
        i.more_kinds and more,
        f"  claimed, not yet deleted: {i.claimed}{second_pass}",
        f"  quarantined: {kept_counts(i.quarantined)}{see}",
    )
    for plan in i.approvals:
        say(f"  waits for approval since {utc(plan.since)}, until {utc(plan.expires_at)}: {', '.join(plan.kinds)}")
        say(f"    {plan.awaits}")
    for cap in i.caps:
        limit = f"no more than {cap.keys_per_second:,} keys/s in vault {cap.vault}"
        say(f"  paced: {limit}{f' ({cap.reason})' if cap.reason else ''}; see: sexton pace")
    kept = f", which kept {human_bytes(i.last.protected_bytes)} in the last round" if i.last else ""
    say(i.protections and f"  protections: {i.protections}{kept}; see: sexton protection list {i.instance}")
    say(i.holds and f"  holds: {i.holds}; see: sexton blockers {i.instance}")
    _show_last_round(i)
    say(f"  checks: {_checks(i)}", check and f"    {check}")
    if not i.shows_live_objects:
        say("  no live view: nothing looks for live objects before a deletion, checks find")
        say("    no loss, and max_delete_fraction is not in force", "    see: sexton instance live-view --help")
    rows = f"{i.checked.prefixes:,} live rows name prefixes, not objects"
    say(i.checked.prefixes and f"  not checked: loss inside a prefix; {rows}")
    typer.echo("")


def _joined(problems: "Sequence[tuple[int, str]]", none: str) -> str:
    """Return the texts of the counts that are not zero."""
    return ", ".join(text for count, text in problems if count) or none


def _show_topics(figures: "WalFigures", purges: "Sequence[RunningWork]") -> None:
    """Print all topics in one line, and the purges that have not ended, a few of them by name."""
    problems = (
        (figures.quarantined, f"{figures.quarantined} QUARANTINED"),
        (figures.faulty, f"{figures.faulty} with a fault"),
        (figures.lost_regions, f"LOSS in {quantity(figures.lost_regions, 'region')}"),
        (figures.lagging_regions, f"{quantity(figures.lagging_regions, 'region')} far behind"),
        *((count, f"{count} {reason}") for reason, count in figures.blocked.items()),
    )
    entries = f"{figures.entries:,} entries kept, about {human_bytes(figures.bytes)}"
    state = _joined(problems, "none is blocked")
    typer.echo(f"topics: {figures.topics} purged, {entries}; {state}; see: sexton wal list\n")
    for work in purges[:MOST_PURGES]:
        say(f"  purge of {work.name}, since {utc(work.since)}: {work.state}")
    more = len(purges) - MOST_PURGES
    say(more > 0 and f"  and {more:,} more purges")


def _show_binlogs(counts: "LogCounts") -> None:
    """Print all binlogs in one line."""
    problems = (
        (counts.waiting, f"{quantity(counts.waiting, 'cut')} waiting for approval"),
        (counts.held, f"{counts.held} blocked by consumers"),
        (counts.lost, f"{quantity(counts.lost, 'consumer')} LOST"),
        (counts.refused, f"clock refused in {quantity(counts.refused, 'instance')}"),
        (counts.behind, f"{quantity(counts.behind, 'backend')} behind (sexton replica backends)"),
    )
    records = f"{quantity(counts.records, 'record')} kept, {human_bytes(counts.bytes)}"
    state = _joined(problems, "nothing waits")
    typer.echo(f"binlogs: {quantity(counts.logs, 'log')}, {records}; {state}; see: sexton binlog list\n")


def _show_last_round(i: "InstanceStatus") -> None:
    success = utc(i.last_success) if i.last_success else "never"
    failures = f", {quantity(i.failures, 'round')} without success since" if i.failures else ""
    say(f"  last success: {success}{failures}")
    if (report := i.last) is None:
        say("  last round: none yet")
        return
    result = "observed only" if report.observed else f"deleted {report.deleted}, failed {report.failed}"
    say(f"  last round: {report.round} at {utc(i.last_ended)} {report.state}, {result}")
    if faults := excluded_vaults(report):
        failed = "it counts as failed; " if report.faults else ""
        see = vault_way_out(", ".join(sorted(set(report.vaults.values()).difference(NO_FAULT))), i.instance)
        say(f"  vaults with a fault: {faults}; {failed}see: {see}")
    is_silent = any(kept.reason is KeepReason.OWNER_SILENT for kept in report.kept)
    say(
        f"  it kept: {kept_counts(report.kept)}",
        is_silent and f"  its owner did not answer; it counts as failed; see: sexton blockers {i.instance}",
        report.error and f"  last error: {first_line(report.error)}",
    )


def _checks(i: "InstanceStatus") -> str:
    checked = i.checked
    parts = [f"one is running since {utc(checked.running_since)}"] if checked.running_since else []
    if checked.last is None:
        return "; ".join([*parts, f"none has ended; to run one: sexton check run {i.instance}"])
    if checked.lost:
        parts.insert(0, f"{checked.lost:,} LOST, confirmed: sexton check findings {i.instance} --type LOST")
    last = "" if checked.last == "WHOLE" else f", the last was {checked.last}: sexton check list {i.instance}"
    return "; ".join([*parts, f"the last complete one: {utc(checked.whole) if checked.whole else 'none'}{last}"])


def _running(r: "Running") -> str:
    name = f"round {r.round}" if r.round else "a round"
    if r.cut_off:
        return (
            f"{name} lost its lease: no worker has it (sexton doctor), or it is paused in Temporal (sexton blockers). "
            "It continues when a worker takes it; if its workflow no longer exists, the next round takes over"
        )
    if r.leased:
        counts = r.progress  # as far as its rows show it
        return f"{name} is running since {utc(r.since)}{f': {gone_text(counts)}' if counts.expected else ''}"
    if r.waiting:
        return f"{name} has had no lease since {utc(r.waiting_since)}: {first_line(r.waiting)}"
    return f"{name}, begun {utc(r.since)}, has no lease now"
