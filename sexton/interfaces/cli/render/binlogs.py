"""Print logs, their consumers, and the result of a cut."""

from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import duration, human_bytes, quantity, retention, utc, utc_column
from sexton.interfaces.cli.output import show_table

if TYPE_CHECKING:
    from sexton.operations.binlogs import ShownLog
    from sexton.replication.binlog.messages import GcReport
    from sexton.replication.binlog.model import Consumer, Log, LogCutPreview, LogExplanation
    from sexton.replication.replicas.model import BackendStanding


def log_row(log: "ShownLog") -> tuple[object, ...]:
    """Return a log as a row."""
    if log.dropped_at is not None:
        return log.name, "-", "-", "-", "-", "-", "", f"DROPPED since {utc_column(log.dropped_at)}"
    return (
        log.name,
        "-" if log.in_database_log else duration(log.ttl_seconds),
        f"{log.kept:,}",
        human_bytes(log.bytes - log.gone_bytes),
        log.floor + 1,
        log.last_seq,
        _blocking_consumers(log),
        _log_state(log),
    )


def consumer_row(consumer: "Consumer") -> tuple[object, ...]:
    """Return a consumer as a row."""
    log = f"{consumer.db}/{consumer.tbl}" if consumer.tbl else consumer.db
    state = "ok"
    if consumer.lost_at is not None:
        state = f"LOST since {utc_column(consumer.lost_at)}: it blocks nothing"
    return consumer.name, log, consumer.acked, utc_column(consumer.seen_at), utc_column(consumer.since), state


def show_explanation(explanation: "LogExplanation") -> None:
    """Print what a cut would delete, and what blocks the rest."""
    _show_log_state(explanation)
    for line in explanation.lines:
        _show_cut_preview(line)
    if explanation.logs > len(explanation.lines):
        more = f"{explanation.logs - len(explanation.lines):,} more tables"
        typer.echo(f"and {more}; name one: sexton binlog explain {explanation.db} TABLE")
    if explanation.halted:
        typer.echo(f"nothing can be deleted now: {explanation.halted}")
    if explanation.clock:
        typer.echo(f"the next run cuts nothing: {explanation.clock}")
    last_run = explanation.look
    refused = f"; it cut nothing: {last_run.refused}" if last_run.refused else ""
    typer.echo(f"last run: {utc(last_run.checked_at)}{refused}")
    columns = ("consumer", "binlog", "acknowledged", "last contact (UTC)", "since (UTC)", "state")
    show_table("", columns, [_explained_consumer_row(c, explanation) for c in explanation.consumers])
    _show_replicas(explanation)


def show_gc_report(report: "GcReport") -> None:
    """Print the result of a run."""
    cut = report.cut
    end = ", and was cancelled" if report.cancelled else ""
    typer.echo(f"binlogs of {report.instance}: {quantity(cut.cut, 'log')} cut, {quantity(cut.records, 'record')}{end}")
    if cut.refused:
        typer.echo(f"  nothing was cut: {cut.refused}")
    if cut.held:
        typer.echo(f"  {quantity(cut.held, 'log')} blocked by consumers; see: sexton binlog list")
    if cut.waiting:
        typer.echo(f"  {quantity(cut.waiting, 'cut')} waiting for approval; see: sexton binlog list")
    if cut.lost:
        typer.echo(f"  {quantity(cut.lost, 'consumer')} newly LOST; see: sexton binlog consumers")
    if cut.full_copy:
        typer.echo(f"  {quantity(cut.full_copy, 'replica')} newly FULL_COPY_ONLY; see: sexton replica list")
    _show_backends(report)
    for message in (*report.said, *report.swept.said):
        typer.echo(f"  {message}")


def problem(standing: "BackendStanding") -> str:
    """Return the number of problems that a backend reported, and an example."""
    return f"{standing.problems:,}, e.g. {standing.problem}" if standing.problems else ""


def _show_backends(report: "GcReport") -> None:
    deleted = report.swept
    if report.backends:
        files = f"{quantity(deleted.files, 'file')} ({human_bytes(deleted.bytes)})"
        keys, tablets = quantity(deleted.keys, "key"), quantity(deleted.tablets, "tablet")
        backends = quantity(report.backends, "backend")
        typer.echo(f"  {backends} asked to delete: {files} and {keys} deleted, of {tablets}")
    if report.away:
        typer.echo(f"  {report.away} of them did not answer; they pull when they are back")
    if deleted.unknown or deleted.quarantined or deleted.failed:
        counts = f"{deleted.unknown:,} unknown, {deleted.quarantined:,} quarantined, {deleted.failed:,} failed"
        typer.echo(f"  tablets that did not delete: {counts}; see: sexton replica list")


def _show_log_state(explanation: "LogExplanation") -> None:
    database, table = explanation.db, explanation.tbl
    name = f"{database}/{table}" if table else database
    if explanation.dropped_at is not None:
        typer.echo(
            f"binlog {name}: DROPPED since {utc(explanation.dropped_at)}; all of it is deleted, nothing blocks it"
        )
    elif not explanation.lines:
        typer.echo(f"binlog {name}: neither the database nor a table has one; sexton binlog set {database} --ttl 7d")
    elif table and explanation.own.enabled:
        typer.echo(f"table {table} is in the log of its database, and is cut with it")


def _show_cut_preview(line: "LogCutPreview") -> None:
    log, cut = line.log, line.cut
    disabled = "" if log.enabled else "disabled; "
    records = "no records"
    if log.kept:
        records = f"{quantity(log.kept, 'record')} from {log.floor + 1} to {log.last_seq}"
    size = human_bytes(log.bytes - log.gone_bytes)
    typer.echo(f"binlog {log.name}: {disabled}{records}, {size}; {retention(log)}; last cut {utc(log.cut_at)}")
    if not line.expired:
        typer.echo("  a cut deletes nothing: nothing has expired")
        return
    upto = f", all up to {cut.seq}" if line.goes else ""
    typer.echo(f"  expired: {quantity(line.expired, 'record')}; a cut deletes {line.goes:,} of them{upto}")
    for consumer, acknowledged in cut.held.items():
        typer.echo(f"  blocked by consumer {consumer}, which has acknowledged all up to {acknowledged}")
    if cut.awaiting_seq is not None:
        since = f" since {utc(log.awaiting_since)}" if log.awaiting_since is not None else ""
        approve = _approve(log, cut.awaiting_seq)
        typer.echo(f"  WAITS for approval{since}, because it is very large: {line.waits:,} records; {approve}")


def _explained_consumer_row(consumer: "Consumer", explanation: "LogExplanation") -> tuple[object, ...]:
    *row, state = consumer_row(consumer)
    if consumer.lost_at is None:
        lost_after = explanation.lost_after_seconds
        if consumer.seen_at <= explanation.now - lost_after * 1000:
            state = "silent for too long: LOST at the next cut"
        elif _blocks(consumer, explanation):
            state = f"blocks a cut; LOST if silent for {duration(lost_after)}"
    return *row, state


def _blocks(consumer: "Consumer", explanation: "LogExplanation") -> bool:
    lines = (line for line in explanation.lines if line.log.tbl in ("", consumer.tbl))
    return any(consumer.name in line.cut.held for line in lines)


def _show_replicas(explanation: "LogExplanation") -> None:
    """Print which replicas still have to delete, and which others block them."""
    if not explanation.backends:
        typer.echo("no replica of its tablets has anything to delete")
        return
    columns = ("backend", "replicas to delete", "of", "pulled (UTC)", "reported (UTC)", "problems")
    rows = [
        (b.backend, f"{b.behind:,}", f"{b.copies:,}", utc_column(b.pulled_at), utc_column(b.reported_at), problem(b))
        for b in explanation.backends
    ]
    show_table("", columns, rows)
    for group in explanation.holders:
        since = f", since {utc(group.since)}" if group.since is not None else ""
        tablets = quantity(group.copies, "tablet")
        what = f"{group.copies:,} replicas on {group.backend}" if group.backend else tablets
        typer.echo(f"versions are retained for {what}: {group.why}{since}")
    for copy in explanation.named:
        typer.echo(f"  {copy.replica.name}: {copy.why}; see: sexton replica explain {copy.replica.tablet}")


def _blocking_consumers(log: "Log") -> str:
    consumers = ", ".join(f"{name} at {acknowledged}" for name, acknowledged in log.held.items())
    if consumers and log.held_since is not None:
        return f"{consumers} since {utc_column(log.held_since)}"
    return consumers


def _log_state(log: "ShownLog") -> str:
    if log.in_database_log:
        return "in its database's log"
    parts = [] if log.enabled else ["off"]
    if log.awaiting_seq is not None:
        parts.append(f"WAITS for approval since {utc_column(log.awaiting_since)}: {_approve(log, log.awaiting_seq)}")
    return "; ".join(parts) or "ok"


def _approve(log: "Log", upto: int) -> str:
    """Return the command that approves a cut that waits."""
    return f"sexton binlog approve {log.name.replace('/', ' ')} --upto {upto} --instance {log.instance}"
