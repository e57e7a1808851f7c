"""How a topic, its regions and its purges are printed."""

from typing import TYPE_CHECKING

import typer

from sexton.interfaces.cli.output import many, show, size, stamp, when
from sexton.wal.model import Why

if TYPE_CHECKING:
    from sexton.wal.explain import RegionLag, TopicExplanation
    from sexton.wal.model import Pin, Purge, Topic


def last_purged(topic: "Topic") -> str:
    """Return the last entry that may be gone, as the RFC counts: one below the floor."""
    return "-" if topic.floor is None else str(topic.floor - 1)


def show_explained(found: "TopicExplanation") -> None:
    """Print what a purge would do, and because of whom no more."""
    topic, verdict = found.topic, found.verdict
    faulty = any(block.why is Why.FAULT for block in verdict.blocked)
    there = _there(topic, seen=not faulty)
    typer.echo(f"topic {topic.name}: {_mode(topic)}; last_purged_entry_id {last_purged(topic)}; {there}")
    if verdict.quarantine:
        typer.echo(f"QUARANTINED: {verdict.quarantine}")
        typer.echo(f"  nothing of it is purged; when it is understood: sexton wal reset {topic.name} --reason …")
    for block in verdict.blocked:
        since = topic.blocked.get(block.why)
        typer.echo(f"blocked{f' since {when(since)}' if since is not None else ''}: {block.said}")
    if verdict.lost:
        ours = topic.floor is not None and topic.floor > min(its.last for its in verdict.losses)
        other = f"; Sexton deleted nothing from {topic.floor or 0} on: the log itself did, or somebody else"
        who = "" if ours else other
        typer.echo(f"LOSS in {many(verdict.lost, 'region')}{who}")
    for its in verdict.losses[:10]:
        typer.echo(f"LOSS: region {its.region} needs entries {its}, which are gone; to accept that:")
        typer.echo(f"  sexton wal reset {topic.name} --region {its.region} --reason …")
    if topic.fault and not verdict.blocked:
        typer.echo(f"the last purge met: {topic.fault}")
    if verdict.keep_from is not None:
        holders = f"; held by {', '.join(verdict.holders[:5])}" if verdict.holders else "; nobody holds it"
        much = f"{entries(found.frees)}{_about(found.bytes)}, all before {verdict.keep_from - 1}"
        frees = much if found.frees else "nothing"
        typer.echo(f"a purge frees {frees}{holders}")
    if found.behind:
        typer.echo(f"{many(found.behind, 'region')} would be asked to flush before")
    rows = [_row(line) for line in found.lines]
    columns = ("region", "state", "last_entry_id", "by", "told (UTC)", "node", "entries behind", "about")
    show("", columns, rows)
    if found.regions > len(found.lines):
        typer.echo(f"and {found.regions - len(found.lines):,} regions more, which need less")
    show("", ("replay", "region", "reads from", "node", "until (UTC)"), [_pin(p) for p in found.pins])


def _row(line: "RegionLag") -> tuple[object, ...]:
    its = line.region
    last = "nobody knows" if its.keep_from is None else its.keep_from - 1
    state = str(its.state) + ("" if line.holds else ", holds nothing")
    if its.waits is not None:
        state += f"; told {its.waits - 1}, above the end as known"
    entries = "" if line.entries is None else f"{line.entries:,}"
    return its.region, state, last, its.source, stamp(its.reported_at), its.node, entries, _size(line.bytes)


def _pin(pin: "Pin") -> tuple[object, ...]:
    return pin.id, pin.region, pin.start, pin.node, stamp(pin.expires_at)


def _mode(topic: "Topic") -> str:
    return ("logical" if topic.mode == "logical" else "enabled") if topic.enabled else "off"


def _kept(topic: "Topic") -> str:
    return "-" if topic.log_end is None else f"{topic.log_end - (topic.log_start or 0):,}"


def _bytes(topic: "Topic") -> str:
    return _size(_weight(topic) or None)


def _there(topic: "Topic", *, seen: bool) -> str:
    if topic.log_end is None:
        return "the log was never seen"
    if topic.log_end == (topic.log_start or 0):
        return f"it is empty; the next entry is {topic.log_end}"
    are, last = ("are", "") if seen else ("were", ", when it was seen last")
    return f"entries {topic.log_start or 0} to {topic.log_end - 1} {are} there{_about(_weight(topic))}{last}"


def _weight(topic: "Topic") -> int:
    return int(((topic.log_end or 0) - (topic.log_start or 0)) * topic.entry_bytes)


def _about(count: int) -> str:
    return f" (about {size(count)})" if count else ""


def _size(count: int | None) -> str:
    return "" if count is None else size(count)


def _state(topic: "Topic", lost: int) -> str:
    if topic.quarantined:
        return f"QUARANTINED: {topic.quarantined}"
    told = [f"LOSS in {many(lost, 'region')}"] if lost else []
    told += [f"{why} since {stamp(since)}" for why, since in topic.blocked.items() if topic.enabled]
    told += [topic.fault] if topic.fault else []
    return "; ".join(told) or ("ok" if topic.looked_at else "not looked at yet")


def _held(holders: dict[str, int]) -> str:
    first = sorted(holders.items(), key=lambda its: its[1])[:3]
    return ", ".join(f"{who} from {needed}" for who, needed in first) or "nobody"


def entries(count: int) -> str:
    """Return ``1 entry`` or ``2 entries``."""
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


def purge_row(p: "Purge") -> tuple[object, ...]:
    """Return what a purge did, as a row."""
    freed = "under way" if p.done_at is None else f"{p.freed:,}"
    return stamp(p.at), p.floor - 1, p.log_end - 1, freed, _held(p.holders)


def topic_row(t: "Topic", lost: int) -> tuple[object, ...]:
    """Return a topic as a row."""
    return t.name, _mode(t), last_purged(t), _kept(t), _bytes(t), stamp(t.looked_at), _state(t, lost)
