"""How logs, their consumers and what a cut would do are printed."""

from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.output import many, show, size, stamp, when

if TYPE_CHECKING:
    from sexton.replication.binlog.model import Config, Consumer, Log
    from sexton.replication.binlog.sql.explain import LogCutPreview, LogExplanation
    from sexton.replication.replicas.model import BackendStanding

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def lasting(seconds: int | None) -> str:
    """Return a TTL as it is typed: ``7d``; None: ``forever``."""
    if seconds is None:
        return "forever"
    return next((f"{seconds // n}{unit}" for n, unit in _UNITS if seconds and seconds % n == 0), f"{seconds} s")


def ends(its: "Config") -> str:
    """Return when records of a log go, in words."""
    said = ["they stay forever" if its.ttl_seconds is None else f"each stays for {lasting(its.ttl_seconds)}"]
    said += [] if its.max_history_nums is None else [f"no more than {its.max_history_nums:,} of them"]
    said += [] if its.max_bytes is None else [f"no more than {size(its.max_bytes)}"]
    return ", ".join(said)


def log_row(its: "Log", own: "Log") -> tuple[object, ...]:
    """Return a log as a row; ``own``: its database's."""
    held = ", ".join(f"{who} at {acked}" for who, acked in its.held.items())
    held += f" since {stamp(its.held_since)}" if held and its.held_since is not None else ""
    if its.dropped_at is not None or own.dropped_at is not None:
        since = its.dropped_at if its.dropped_at is not None else own.dropped_at
        return its.name, "-", "-", "-", "-", "-", "", f"DROPPED since {stamp(since)}"
    kept = size(its.bytes - its.gone_bytes)
    return its.name, _kept_for(its, own), f"{its.kept:,}", kept, its.floor + 1, its.last_seq, held, _state(its, own)


def consumer_row(its: "Consumer") -> tuple[object, ...]:
    """Return a consumer as a row."""
    name = f"{its.db}/{its.tbl}" if its.tbl else its.db
    state = "ok" if its.lost_at is None else f"LOST since {stamp(its.lost_at)}: it holds nothing"
    return its.name, name, its.acked, stamp(its.seen_at), stamp(its.since), state


def show_explained(found: "LogExplanation") -> None:
    """Print what a cut would do, and because of whom no more."""
    name = f"{found.db}/{found.tbl}" if found.tbl else found.db
    if found.dropped_at is not None:
        typer.echo(f"binlog {name}: DROPPED since {when(found.dropped_at)}; all of it goes, nobody holds it")
    elif not found.lines:
        typer.echo(f"binlog {name}: neither the database nor a table has one; sexton binlog set {found.db} --ttl 7d")
    elif found.tbl and found.own.enabled:
        typer.echo(f"table {found.tbl} is in the log of its database, and is cut with it")
    for line in found.lines:
        _line(line)
    if found.logs > len(found.lines):
        more = f"{found.logs - len(found.lines):,} tables more"
        typer.echo(f"and {more}; name one: sexton binlog explain {found.db} TABLE")
    if found.halted:
        typer.echo(f"nothing goes now: {found.halted}")
    if found.clock:
        typer.echo(f"the next look cuts nothing: {found.clock}")
    refused = f"; nothing was cut then: {found.look.refused}" if found.look.refused else ""
    typer.echo(f"last look: {when(found.look.looked_at)}{refused}")
    columns = ("consumer", "binlog", "has all up to", "heard of (UTC)", "since (UTC)", "state")
    show("", columns, [_consumer(c, found) for c in found.consumers])
    _copies(found)


def _line(line: "LogCutPreview") -> None:
    log, cut = line.log, line.cut
    numbers = f"from {log.floor + 1} to {log.last_seq}"
    there = f"{many(log.kept, 'record')} {numbers}" if log.kept else "no record is there"
    kept = size(log.bytes - log.gone_bytes)
    off = "" if log.enabled else "not enabled; "
    typer.echo(f"binlog {log.name}: {off}{there}, {kept}; {ends(log)}; cut last {when(log.cut_at)}")
    if not line.expired:
        typer.echo("  a cut takes nothing: nothing has expired")
        return
    upto = f", all up to {cut.seq}" if line.goes else ""
    typer.echo(f"  expired: {many(line.expired, 'record')}; a cut takes {line.goes:,} of them{upto}")
    for who, acked in cut.held.items():
        typer.echo(f"  held by consumer {who}, who has all up to {acked}")
    if cut.wants is not None:
        since = f" since {when(log.wants_since)}" if log.wants_since is not None else ""
        todo = f"sexton binlog approve {log.db} {log.tbl}".rstrip()
        typer.echo(f"  WAITS for approval{since}, for it takes very much: {line.waits:,} records; {todo}")


def _consumer(its: "Consumer", found: "LogExplanation") -> tuple[object, ...]:
    *row, state = consumer_row(its)
    if its.lost_at is None:
        if its.seen_at <= found.now - found.lost_after_seconds * 1000:
            state = "silent for too long: LOST with the next cut"
        elif any(its.name in line.cut.held for line in found.lines if line.log.tbl in ("", its.tbl)):
            state = f"holds; LOST if silent for {lasting(found.lost_after_seconds)}"
    return *row, state


def _copies(found: "LogExplanation") -> None:
    """Print which copies of tablets still have to let go, and because of whom they do not."""
    if not found.backends:
        typer.echo("no copy of its tablets has anything to let go")
        return
    columns = ("backend", "copies to let go", "of", "pulled (UTC)", "reported (UTC)", "problems")
    told = [(stamp(b.pulled_at), stamp(b.reported_at), problem(b)) for b in found.backends]
    rows = [(b.backend, f"{b.behind:,}", f"{b.copies:,}", *its) for b, its in zip(found.backends, told, strict=True)]
    show("", columns, rows)
    for h in found.holders:
        since = f", since {when(h.since)}" if h.since is not None else ""
        who = f"{h.copies:,} on {h.backend}" if h.backend else f"tablets: {h.copies:,}"
        typer.echo(f"others keep for {who}: {h.why}{since}")
    for its in found.named:
        typer.echo(f"  {its.replica.name}: {its.why}; see: sexton replica explain {its.replica.tablet}")


def problem(its: "BackendStanding") -> str:
    """Return what a backend told that went wrong, in short."""
    return f"{its.problems:,}, e.g. {its.problem}" if its.problems else ""


def _kept_for(its: "Log", own: "Log") -> str:
    return "-" if its.tbl and own.enabled else lasting(its.ttl_seconds)


def _state(its: "Log", own: "Log") -> str:
    if its.tbl and own.enabled:
        return "in its database's"
    said = [] if its.enabled else ["off"]
    if its.wants is not None:
        said += [
            f"WAITS for approval since {stamp(its.wants_since)}: sexton binlog approve {its.db} {its.tbl}".rstrip()
        ]
    return "; ".join(said) or "ok"
