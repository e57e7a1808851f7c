"""Print topics, their regions and their purges."""

from typing import TYPE_CHECKING

import typer

from sexton.insight.wording import human_bytes, quantity, utc, utc_column
from sexton.interfaces.cli.output import show_table
from sexton.wal.model import BlockReason

if TYPE_CHECKING:
    from sexton.operations.topics import ShownTopic
    from sexton.wal.messages import PurgeReport, TopicCounts
    from sexton.wal.model import Pin, Purge, RegionLag, Topic, TopicExplanation

MAX_LOSSES = 10
MAX_HOLDERS = 5
MAX_HOLDERS_IN_ROW = 3


def topic_row(topic: "ShownTopic") -> tuple[object, ...]:
    """Return a topic as a row."""
    entries = "-" if topic.log_end is None else f"{topic.log_end - (topic.log_start or 0):,}"
    size = _size(_estimated_bytes(topic) or None)
    checked = utc_column(topic.checked_at)
    return (
        topic.name,
        topic.instance,
        _mode(topic),
        last_purged(topic),
        entries,
        size,
        checked,
        _state(topic, topic.lost_regions, topic.lagging_regions),
    )


def purge_row(purge: "Purge") -> tuple[object, ...]:
    """Return a purge as a row."""
    freed = "running" if purge.done_at is None else f"{purge.freed:,}"
    return utc_column(purge.at), purge.floor - 1, purge.log_end - 1, freed, _oldest_holders(purge.holders)


def last_purged(topic: "Topic") -> str:
    """Return the last entry that may be deleted, as the RFC counts: one below the floor."""
    return "-" if topic.floor is None else str(topic.floor - 1)


def show_explanation(explanation: "TopicExplanation") -> None:
    """Print what a purge would delete, and which regions block the rest."""
    _show_state(explanation)
    _show_losses(explanation)
    if explanation.topic.fault and not explanation.verdict.blocked:
        typer.echo(f"the last purge failed: {explanation.topic.fault}")
    _show_effect(explanation)
    columns = ("region", "state", "last_entry_id", "by", "reported (UTC)", "node", "entries behind", "about")
    show_table("", columns, [_region_row(line) for line in explanation.lines])
    if explanation.regions > len(explanation.lines):
        typer.echo(f"and {explanation.regions - len(explanation.lines):,} more regions, which need less")
    pin_columns = ("replay", "region", "reads from", "node", "until (UTC)")
    show_table("", pin_columns, [_pin_row(pin) for pin in explanation.pins])


def show_round_report(counts: "TopicCounts") -> None:
    """Print what a round of topics found and started."""
    typer.echo(f"{quantity(counts.topics, 'topic')} due; {quantity(counts.started, 'purge')} started")
    if counts.running:
        typer.echo(f"  {quantity(counts.running, 'purge')} running already")
    for number, name in ((counts.blocked, "blocked"), (counts.quarantined, "quarantined"), (counts.faults, "faulty")):
        if number:
            typer.echo(f"  {number:,} {name}; see: sexton blockers")
    if counts.losses:
        typer.echo(f"  LOSS: entries that {quantity(counts.losses, 'region')} needed are deleted; see: sexton wal list")
    for reason in counts.reasons:
        typer.echo(f"  {reason}")


def show_purge_report(report: "PurgeReport") -> None:
    """Print the result of a purge."""
    purged, flushed = report.purged, report.flushed
    freed = purged.freed if purged else 0
    last = "" if purged is None or purged.floor is None else f"last_purged_entry_id {purged.floor - 1}, "
    typer.echo(f"topic {report.topic}: {report.outcome}; {last}{freed:,} entries freed")
    if flushed.asked or flushed.silent:
        typer.echo(f"  {quantity(flushed.asked, 'region')} asked to flush, {flushed.flushed} flushed in time")
    for region in flushed.late:
        typer.echo(f"  not in time: {region}")
    for node, reason in flushed.silent.items():
        typer.echo(f"  node {node} was not asked: {reason}")
    if purged is not None:
        verdict, see = purged.verdict, f"see: sexton wal explain {report.topic}"
        if verdict.quarantine:
            typer.echo(f"  quarantined: {verdict.quarantine}; {see}")
        if verdict.lost:
            typer.echo(f"  LOSS: entries that {quantity(verdict.lost, 'region')} needed are deleted; {see}")
        for block in verdict.blocked:
            typer.echo(f"  blocked: {block.said}")
        if verdict.holders:
            typer.echo(f"  the rest is blocked by {', '.join(verdict.holders[:MAX_HOLDERS])}; {see}")
    if report.error:
        typer.echo(f"  error: {report.error}")


def _show_state(explanation: "TopicExplanation") -> None:
    topic, verdict = explanation.topic, explanation.verdict
    log_was_read = not any(block.why is BlockReason.FAULT for block in verdict.blocked)
    entries = _entries_in_log(topic, log_was_read=log_was_read)
    typer.echo(
        f"topic {topic.name} of {topic.instance}: {_mode(topic)}; last_purged_entry_id {last_purged(topic)}; {entries}"
    )
    if verdict.quarantine:
        typer.echo(f"QUARANTINED: {verdict.quarantine}")
        typer.echo(
            f"  no entry of it is purged; when the cause is understood: sexton wal reset {topic.name} --reason …"
        )
    for block in verdict.blocked:
        since = topic.blocked.get(block.why)
        typer.echo(f"blocked{f' since {utc(since)}' if since is not None else ''}: {block.said}")


def _show_losses(explanation: "TopicExplanation") -> None:
    topic, verdict = explanation.topic, explanation.verdict
    if verdict.lost:
        purged_by_sexton = topic.floor is not None and topic.floor > min(loss.last for loss in verdict.losses)
        cause = f"; Sexton deleted nothing from {topic.floor or 0} on: the log itself did, or another program"
        typer.echo(f"LOSS in {quantity(verdict.lost, 'region')}{'' if purged_by_sexton else cause}")
    for loss in verdict.losses[:MAX_LOSSES]:
        typer.echo(f"LOSS: region {loss.region} needs entries {loss}, which are deleted; to accept that:")
        typer.echo(f"  sexton wal reset {topic.name} --region {loss.region} --reason …")


def _show_effect(explanation: "TopicExplanation") -> None:
    verdict = explanation.verdict
    if verdict.keep_from is not None:
        blocked_by = "; no region blocks the rest"
        if verdict.holders:
            blocked_by = f"; blocked by {', '.join(verdict.holders[:MAX_HOLDERS])}"
        size = _about(explanation.bytes)
        freed = f"{_entries(explanation.frees)}{size}, all before {verdict.keep_from - 1}"
        typer.echo(f"a purge frees {freed if explanation.frees else 'nothing'}{blocked_by}")
    if explanation.behind:
        typer.echo(f"{quantity(explanation.behind, 'region')} would be asked to flush first")


def _region_row(line: "RegionLag") -> tuple[object, ...]:
    region = line.region
    last_entry = "unknown" if region.keep_from is None else region.keep_from - 1
    state = str(region.state) + ("" if line.holds else ", blocks nothing")
    if region.pending_keep_from is not None:
        state += f"; reported {region.pending_keep_from - 1}, above the known end of the log"
    behind = "" if line.entries is None else f"{line.entries:,}"
    reported = utc_column(region.reported_at)
    return region.region, state, last_entry, region.source, reported, region.leader, behind, _size(line.bytes)


def _pin_row(pin: "Pin") -> tuple[object, ...]:
    return pin.id, pin.region, pin.start, pin.node, utc_column(pin.expires_at)


def _mode(topic: "Topic") -> str:
    if not topic.enabled:
        return "off"
    return "logical" if topic.mode == "logical" else "enabled"


def _entries_in_log(topic: "Topic", *, log_was_read: bool) -> str:
    if topic.log_end is None:
        return "the log was never read"
    if topic.log_end == (topic.log_start or 0):
        return f"it is empty; the next entry is {topic.log_end}"
    first, last, size = topic.log_start or 0, topic.log_end - 1, _about(_estimated_bytes(topic))
    if log_was_read:
        return f"it contains entries {first} to {last}{size}"
    return f"it contained entries {first} to {last}{size} when it was last read"


def _state(topic: "Topic", lost_regions: int, lagging_regions: int) -> str:
    if topic.quarantined:
        return f"QUARANTINED: {topic.quarantined}"
    parts = [f"LOSS in {quantity(lost_regions, 'region')}"] if lost_regions else []
    if topic.enabled:
        parts += [f"{reason} since {utc_column(since)}" for reason, since in topic.blocked.items()]
    if topic.fault:
        parts.append(topic.fault)
    if lagging_regions:
        parts.append(f"blocked by {quantity(lagging_regions, 'region')} far behind")
    return "; ".join(parts) or ("ok" if topic.checked_at else "not checked yet")


def _oldest_holders(holders: dict[str, int]) -> str:
    oldest = sorted(holders.items(), key=lambda item: item[1])[:MAX_HOLDERS_IN_ROW]
    return ", ".join(f"{holder} from {first_entry}" for holder, first_entry in oldest) or "none"


def _entries(count: int) -> str:
    return quantity(count, "entry", "entries")


def _estimated_bytes(topic: "Topic") -> int:
    return int(((topic.log_end or 0) - (topic.log_start or 0)) * topic.entry_bytes)


def _about(count: int) -> str:
    return f" (about {human_bytes(count)})" if count else ""


def _size(count: int | None) -> str:
    return "" if count is None else human_bytes(count)
