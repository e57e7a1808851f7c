"""What becomes of a topic's row, and of its purge's, when a decision about it was made. Pure: rows as values."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sexton.operators.controls.model import Halt
from sexton.wal import policy
from sexton.wal.model import Block, Facts, LogStateBeforeRead, Pin, PurgeVerdict, Region, Topic, Why
from sexton.wal.port import LogFault

MOST_SAID = 500
NAMED_HOLDERS = 100
"""Of the regions and what they needed so many are written down with a purge, the lowest first."""
Answers = Mapping[str, Facts | LogFault]


class TopicDecision(NamedTuple):
    """One topic, as a decision sees it."""

    topic: Topic
    its: Facts | LogFault
    regions: Sequence[Region]
    pins: Sequence[Pin]


def sound(there: Mapping[str, Topic], answers: Answers, before: LogStateBeforeRead) -> dict[str, Facts]:
    """Return what was said of topics that are those we know: of another, or one that was cut, nothing counts."""
    found = {}
    for name, its in answers.items():
        topic = there.get(name)
        if topic is None or topic.quarantined or not isinstance(its, Facts):
            continue
        if not policy.strange(topic, its, before.safe.get(name, 0)):
            found[name] = its
    return found


def halted(verdict: PurgeVerdict, halt: Halt | None) -> PurgeVerdict:
    """Return the verdict as a stop of everything leaves it: what was found out stays, nothing may go."""
    if halt is None:
        return verdict
    blocked = (*verdict.blocked, Block(why=Why.STOPPED, said=str(halt)))
    return verdict.model_copy(update={"blocked": blocked, "keep_from": None, "holders": ()})


def topic_row(state: TopicDecision, verdict: PurgeVerdict, now: int) -> dict[str, Any]:
    """Return what becomes of a topic's row; ``of`` names it."""
    topic, its = state.topic, state.its
    blocked = {str(b.why): topic.blocked.get(b.why, now) for b in verdict.blocked}
    if isinstance(its, LogFault):  # nobody has looked whether the others are over
        blocked = {str(why): since for why, since in topic.blocked.items()} | blocked
    row: dict[str, Any] = {"of": topic.name, "blocked": blocked, "quarantined": verdict.quarantine}
    row |= {name: getattr(topic, name) for name in ("kafka_id", "log_start", "log_end", "floor")}
    if isinstance(its, Facts) and not verdict.quarantine:
        row |= {"kafka_id": its.id, **ends(topic, its)}
    return row


def turn(its: Facts | LogFault, now: int) -> dict[str, Any]:
    """Return what a look at a topic leaves of itself: one that found nobody is made again soon."""
    if isinstance(its, LogFault):
        return {"fault": str(its)[:MOST_SAID], "looked_at": None if its.passes else now}
    return {"fault": "", "looked_at": now}


def ends(topic: Topic, its: Facts) -> dict[str, int]:
    """Return where a topic begins and ends; an answer that is older than what we know takes nothing back."""
    return {"log_start": max(its.start, topic.log_start or 0), "log_end": max(its.end, topic.log_end or 0)}


def purge_row(state: TopicDecision, verdict: PurgeVerdict, now: int) -> dict[str, Any]:
    """Return the row of a floor: when, and because of whom no further."""
    its = state.its
    assert isinstance(its, Facts)
    needs = [(r.keep_from, f"region {r.region}") for r in state.regions if r.keep_from is not None]
    needs += [(p.start, f"replay {p.id} of region {p.region}") for p in state.pins]
    return {
        "topic": state.topic.name,
        "kafka_id": its.id,
        "floor": verdict.keep_from,
        "at": now,
        "log_end": its.end,
        "log_start": its.start,  # until it is done: what went is counted from there, whoever looked in between
        "holders": {who: needed for needed, who in sorted(needs)[:NAMED_HOLDERS]},
    }
