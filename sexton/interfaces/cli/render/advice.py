"""What follows from a result, and what to do about it: lines that are printed below its fields."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sexton.insight.wording import UNANSWERED, duration, quantity, utc, utc_column
from sexton.interfaces.cli.render.tables import approve_command

MAX_LOSSES = 10


def _binlog(e: Any) -> Iterator[str]:
    if e.dropped_at is not None:
        yield f"DROPPED since {utc(e.dropped_at)}: all of it is deleted, nothing blocks it"
    elif not e.lines:
        yield f"neither the database nor a table has a binlog; sexton binlog set {e.db} --ttl 7d"
    elif e.tbl and e.own.enabled:
        yield f"table {e.tbl} is in the log of its database, and is cut with it"
    if e.logs > len(e.lines):
        yield f"and {e.logs - len(e.lines):,} more tables; name one: sexton binlog explain {e.db} TABLE"
    for line in e.lines:
        if (upto := line.cut.awaiting_seq) is not None:
            yield f"it WAITS for approval, because it is very large: {approve_command(line.log, upto)}"
    yield from _consumers(e)
    if not e.backends:
        yield "no replica of its tablets has anything to delete"
    for copy in e.named:
        yield f"see: sexton replica explain {copy.replica.tablet}"


def _consumers(e: Any) -> Iterator[str]:
    """Yield which consumers block a cut, and which will no longer."""
    for consumer in e.consumers:
        lines = [line for line in e.lines if line.log.tbl in ("", consumer.tbl)]
        if consumer.lost_at is not None:
            continue
        if consumer.seen_at <= e.now - e.lost_after_seconds * 1000:
            yield f"consumer {consumer.name} is silent for too long: LOST at the next cut"
        elif any(consumer.name in line.cut.held for line in lines):
            yield f"consumer {consumer.name} blocks a cut; LOST if silent for {duration(e.lost_after_seconds)}"


def _gc(report: Any) -> Iterator[str]:
    cut, swept = report.cut, report.swept
    if cut.held or cut.waiting:
        yield "see: sexton binlog list"
    if cut.lost:
        yield "see: sexton binlog consumers"
    if cut.full_copy or swept.unknown or swept.quarantined or swept.failed:
        yield "see: sexton replica list"
    if report.away:
        yield "backends that are away pull when they are back"


def _topic(e: Any) -> Iterator[str]:
    topic, verdict = e.topic, e.verdict
    if verdict.quarantine:
        yield f"no entry of it is purged; when the cause is understood: sexton wal reset {topic.name} --reason …"
    for block in verdict.blocked:
        since = topic.blocked.get(block.why)
        yield f"blocked{'' if since is None else f' since {utc(since)}'}: {block.said}"
    if verdict.lost:
        purged_by_sexton = topic.floor is not None and topic.floor > min(loss.last for loss in verdict.losses)
        cause = f"; Sexton deleted nothing from {topic.floor or 0} on: the log itself did, or another program"
        yield f"LOSS in {quantity(verdict.lost, 'region')}{'' if purged_by_sexton else cause}"
    for loss in verdict.losses[:MAX_LOSSES]:
        yield f"LOSS: region {loss.region} needs entries {loss}, which are deleted; to accept that:"
        yield f"  sexton wal reset {topic.name} --region {loss.region} --reason …"
    if e.regions > len(e.lines):
        yield f"and {e.regions - len(e.lines):,} more regions, which need less"


def _purge(report: Any) -> Iterator[str]:
    verdict = report.purged.verdict if report.purged else None
    if verdict is not None and verdict.lost:
        yield f"LOSS: entries that {quantity(verdict.lost, 'region')} needed are deleted"
    if verdict is not None and (verdict.lost or verdict.quarantine or verdict.holders):
        yield f"see: sexton wal explain {report.topic}"


def _topic_round(counts: Any) -> Iterator[str]:
    if counts.blocked or counts.quarantined or counts.faults:
        yield "see: sexton blockers"
    if counts.losses:
        yield f"LOSS: entries that {quantity(counts.losses, 'region')} needed are deleted; see: sexton wal list"


def _tablet(page: Any) -> Iterator[str]:
    """Yield which replica decides, and which replicas still wait for it."""
    replicas, need = page.items, page.need
    tablet = replicas[0].tablet
    if need is None:
        yield "the tablet is dropped: all of it is deleted, on every backend"
        return
    if not page.decides:
        yield "none of its replicas counts, and one of them may be the last good one: nothing is deleted; repair one,"
        yield "so that it reports, place another, or report that its table is dropped"
        return
    faults = next(replica.faults for replica in replicas if replica.backend == page.decides)
    may = f"binlogs and files below version {need} may be deleted" if need else "nothing may be deleted"
    yield f"the replica on {page.decides} decides: {f'{faults}; ' if faults else ''}{may}"
    present = [replica for replica in replicas if not replica.dropped]
    desired = max(replica.desired for replica in present)
    waiting = sum(replica.granted < replica.desired and need <= replica.desired for replica in present)
    if waiting:
        condition = f"it has version {need}" if need else "it has reported that it is healthy"
        waits = quantity(waiting, "replica waits", "replicas wait")
        yield f"cuts have reached version {desired}; {waits} until {condition}"
        yield f"if it never will: sexton replica full-copy {tablet} {page.decides} --reason …"
    elif any(replica.acked < replica.desired for replica in replicas):
        yield f"cuts have reached version {desired}; the rest is deleted when its backend pulls"


def _setting_change(change: Any) -> Iterator[str]:
    if not change.shifts:
        yield "no waiting mark becomes due, or is no longer due"
    for name in dict.fromkeys(shift.instance for shift in change.shifts if shift.asks):
        yield (
            f"{name}: marks that become due only by this change wait in the first plan after it, until an operator "
            f"applies that plan (sexton plan list {name}); other marks are deleted as usual"
        )
    if change.loosens:
        yield f"this loosens a safeguard: {change.loosens}"


def _plans(page: Any) -> Iterator[str]:
    for plan in page.items:
        if plan.state == "REJECTED":
            yield f"plan {plan.id} was {plan.awaits}"
        if plan.state == "AWAITING_APPROVAL":
            yield f"plan {plan.id} waits for approval since {utc_column(plan.since)} UTC: {plan.awaits}"
            yield f"  unanswered, {UNANSWERED} is deleted"


ADVICE: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "plan list": _plans,
    "binlog explain": _binlog,
    "binlog gc": _gc,
    "wal explain": _topic,
    "wal purge": _purge,
    "wal round run": _topic_round,
    "replica explain": _tablet,
    "settings preview": _setting_change,
    "settings show": lambda page: iter([f"ignored: {why}" for why in page.ignored]),
    "pace": lambda paces: iter(
        [] if paces.places or paces.caps else ["nothing was deleted yet, and no vault has a cap"]
    ),
}
"""Operation → the lines."""
