"""`sexton status`: one screen about every instance, from SQL alone."""

from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.context import Json, opened
from sexton.interfaces.cli.output import brief, counts, dump, many, show, size, stamp, when

FINE = ("normal", "NOT_LISTED")
"""A vault's status that is no fault."""

if TYPE_CHECKING:
    from sexton.database.engine import Database
    from sexton.insight.metrics.model import WalFigures
    from sexton.insight.views import InstanceStatus, Running
    from sexton.replication.binlog.sql.figures import LogCounts


def status(as_json: Json = False) -> None:
    """Print every instance on one screen.

    What runs, waits, is due, is kept and is set aside. Needs neither Temporal nor vaults.

    Example: sexton status
    """
    from sexton.interfaces.operator_service import OperatorService

    with opened() as (settings, db):
        desk = OperatorService(settings, db)
        found, topics, binlogs = desk.status(), desk.topics(), _tally(db)
        ui = settings.temporal.ui_url
    if as_json:
        more = {"topics": topics.model_dump(mode="json"), "binlogs": binlogs.model_dump(mode="json")}
        dump(found.model_dump(mode="json") | more)
        return
    if not found.instances:
        typer.echo("no instance is registered; begin with: sexton instance add NAME")
    else:
        typer.echo(f"{found.slots_used} of {found.slots} slots for rounds are in use\n")
    for i in found.instances:
        _one(i)
    if topics.topics:
        _topics(topics)
    if binlogs.databases:
        _binlogs(binlogs)
    if ui:
        typer.echo(f"Temporal UI: {ui}")


def _topics(found: "WalFigures") -> None:
    kept = [f"{n} {why}" for why, n in found.blocked.items() if n]
    bad = [f"{n} {what}" for n, what in ((found.quarantined, "QUARANTINED"), (found.faulty, "with a fault")) if n]
    bad += [f"LOSS in {many(found.lost_regions, 'region')}"] if found.lost_regions else []
    entries = f"{found.entries:,} entries kept, about {size(found.bytes)}"
    blocked = ", ".join(bad + kept) or "none is blocked"
    typer.echo(f"topics: {found.topics} purged, {entries}; {blocked}; see: sexton wal list\n")


def _tally(db: "Database") -> "LogCounts":
    from sexton.replication.binlog.sql.figures import tally

    with db.read() as c:
        return tally(db, c)


def _binlogs(found: "LogCounts") -> None:
    said = [f"{many(found.waiting, 'cut')} waiting for approval"] if found.waiting else []
    said += [f"{found.held} held by consumers"] if found.held else []
    said += [f"{many(found.lost, 'consumer')} LOST"] if found.lost else []
    said += [f"clock refused in {many(found.refused, 'instance')}"] if found.refused else []
    said += [f"{many(found.behind, 'backend')} behind"] if found.behind else []
    kept = f"{many(found.logs, 'log')}, {many(found.records, 'record')} kept, {size(found.bytes)}"
    typer.echo(f"binlogs: {kept}; {', '.join(said) or 'nothing waits'}; see: sexton binlog list\n")


def _one(i: "InstanceStatus") -> None:
    typer.echo(f"{i.instance}: {i.mode}, {_runs(i.running) if i.running else 'no round is running'}")
    if i.mode == "observe":
        typer.echo(f"  its rounds delete nothing until: sexton enable {i.instance}")
    if i.halt is not None:
        since = f" since {when(i.halt.since)}" if i.halt.since else ""
        typer.echo(f"  halted{since}: {i.halt}" + (f" ({when(i.halt.until)})" if i.halt.until else ""))
    elif i.next_round is not None:
        soon = i.next_round <= i.now
        typer.echo(
            f"  next round: {'due now' if soon else when(i.next_round)}, if the schedule runs (sexton schedules list)"
        )
    rows = [(f"  {k.kind}", k.waiting, k.due, size(k.due_bytes), stamp(k.oldest), k.note) for k in i.kinds]
    if not rows:
        typer.echo("  no mark waits")
    show("", ("  kind", "marked", "due", "due bytes", "oldest (UTC)", ""), rows)
    typer.echo(f"  claimed, not gone: {i.claimed} (of these {i.late} prefixes wait for their last look)")
    out = f"; see: sexton quarantine list {i.instance}" if i.quarantined else ""
    typer.echo(f"  set aside: {counts(i.quarantined)}{out}")
    for p in i.approvals:
        typer.echo(f"  waits for somebody since {when(p.since)}, until {when(p.expires_at)}: {', '.join(p.kinds)}")
        typer.echo(f"    {p.awaits}")
    for cap in i.caps:
        why = f" ({cap.reason})" if cap.reason else ""
        typer.echo(f"  paced: no more than {cap.keys_per_second:,} keys/s in vault {cap.vault}{why}; see: sexton pace")
    if i.protections:
        kept = f", which kept {size(i.last.protected_bytes)} in the last round" if i.last else ""
        typer.echo(f"  protections: {i.protections}{kept}; see: sexton protection list {i.instance}")
    if i.holds:
        typer.echo(f"  holds: {i.holds}; see: sexton holds {i.instance}")
    _last(i)
    typer.echo(f"  checks: {_checks(i)}")
    typer.echo("")


def _last(i: "InstanceStatus") -> None:
    success = when(i.last_success) if i.last_success else "never"
    typer.echo(f"  last success: {success}" + (f", {i.failures} failures in a row since" if i.failures else ""))
    if i.last is None:
        typer.echo("  last round: none yet")
        return
    r = i.last
    what = "observed only" if r.observed else f"deleted {r.deleted}, failed {r.failed}"
    typer.echo(f"  last round: {r.round} at {when(i.last_ended)} {r.state}, {what}")
    wrong = ", ".join(f"{vault} {status}" for vault, status in sorted(r.vaults.items()) if status not in FINE)
    if wrong:
        typer.echo(f"  vaults left alone by it: {wrong}; it counts as failed; see: sexton vault list {i.instance}")
    typer.echo(f"  it kept: {counts(r.kept)}")
    if r.error:
        typer.echo(f"  last error: {brief(r.error)}")


def _checks(i: "InstanceStatus") -> str:
    its = i.checked
    said = [f"one runs since {when(its.running_since)}"] if its.running_since else []
    if its.last is None:
        return "; ".join([*said, f"none has ended; by hand: sexton check run {i.instance}"])
    if its.lost:
        said = [f"{its.lost:,} LOST, looked at twice: sexton check findings {i.instance} --type LOST", *said]
    last = "" if its.last == "WHOLE" else f", the last was {its.last}: sexton check list {i.instance}"
    return "; ".join([*said, f"the last that saw everything: {when(its.whole) if its.whole else 'none'}{last}"])


def _runs(r: "Running") -> str:
    named = f"round {r.round}" if r.round else "a round"
    if r.cut_off:
        return (
            f"{named} lost its lease: no worker has it (sexton doctor). It goes on when one does; "
            "where its workflow is gone the next round takes over"
        )
    if r.leased:
        return f"{named} runs since {when(r.since)}"
    if r.waiting:
        return f"{named} holds no lease since {when(r.waiting_since)}: {brief(r.waiting)}"
    return f"{named}, begun {when(r.since)}, holds no lease now"
