"""Decide what a verdict changes in the rows of a topic and of its purge, and which purges the log has completed.

Pure: rows are dictionaries.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sexton.operators.controls.model import Halt
from sexton.wal import policy
from sexton.wal.model import Block, BlockReason, Facts, LogStateBeforeRead, Mode, PurgeVerdict, Topic, WalSettings
from sexton.wal.policy import TopicReaders
from sexton.wal.port import LogFault, Step

MAX_FAULT_CHARS = 500
MAX_HOLDERS = 100
"""Regions and replays that a purge's row names with the first entry they need, the lowest first."""
Answers = Mapping[str, Facts | LogFault]


class TopicState(NamedTuple):
    """One topic, with all that a verdict about it is decided from; ``answer``: the log's."""

    topic: Topic
    answer: Facts | LogFault
    readers: TopicReaders


def trusted_answers(topics: Mapping[str, Topic], answers: Answers, before: LogStateBeforeRead) -> dict[str, Facts]:
    """Return the answers that are about the known topics; those about a replaced or cut topic count for nothing."""
    trusted = {}
    for name, answer in answers.items():
        topic = topics.get(name)
        if topic is None or topic.quarantined or not isinstance(answer, Facts):
            continue
        if not policy.reason_to_quarantine(topic, answer, before.safe.get(name, 0)):
            trusted[name] = answer
    return trusted


def topic_verdict(state: TopicState, halt: Halt | None, now: int, settings: WalSettings, safe: int) -> PurgeVerdict:
    """Return how far a topic may be purged: not at all if the log does not answer, or an operator stopped it.

    ``safe``: the topic's end must not be below it; see ``LogStateBeforeRead``.
    """
    if isinstance(state.answer, LogFault):
        block = Block(why=BlockReason.FAULT, said=str(state.answer))
        verdict = PurgeVerdict(blocked=(block,), quarantine=state.topic.quarantined)
    else:
        verdict = policy.verdict(state.topic, state.answer, state.readers, now, settings, safe)
    if halt is None:
        return verdict
    blocks = (*verdict.blocked, Block(why=BlockReason.STOPPED, said=str(halt)))
    return verdict.model_copy(update={"blocked": blocks, "keep_from": None, "holders": ()})


def topic_row(state: TopicState, verdict: PurgeVerdict, now: int) -> dict[str, Any]:
    """Return the columns of a topic after a verdict; the key ``topic_name`` selects its row."""
    topic, answer = state.topic, state.answer
    blocked = {str(block.why): topic.blocked.get(block.why, now) for block in verdict.blocked}
    if isinstance(answer, LogFault):  # the other reasons were not checked, so they still hold
        blocked = {str(why): since for why, since in topic.blocked.items()} | blocked
    row: dict[str, Any] = {"topic_name": topic.name, "blocked": blocked, "quarantined": verdict.quarantine}
    row |= {column: getattr(topic, column) for column in ("kafka_id", "log_start", "log_end", "floor")}
    if isinstance(answer, Facts) and not verdict.quarantine:
        row |= {"kafka_id": answer.id, **log_bounds(topic, answer)}
    return row


def schedule_columns(answer: Facts | LogFault, now: int) -> dict[str, Any]:
    """Return what a purge notes for the schedule: after a transient fault the topic is due again at once."""
    if isinstance(answer, LogFault):
        return {"fault": str(answer)[:MAX_FAULT_CHARS], "checked_at": None if answer.passes else now}
    return {"fault": "", "checked_at": now}


def log_bounds(topic: Topic, facts: Facts) -> dict[str, int]:
    """Return where a topic begins and ends; an outdated answer moves neither back."""
    return {"log_start": max(facts.start, topic.log_start or 0), "log_end": max(facts.end, topic.log_end or 0)}


def purge_row(state: TopicState, verdict: PurgeVerdict, now: int) -> dict[str, Any]:
    """Return the row of a raised floor: when it rose, and which regions and replays block the entries above it."""
    facts = state.answer
    assert isinstance(facts, Facts)
    needs = [(r.keep_from, f"region {r.region}") for r in state.readers.regions if r.keep_from is not None]
    needs += [(pin.start, f"replay {pin.id} of region {pin.region}") for pin in state.readers.pins]
    return {
        "topic": state.topic.name,
        "kafka_id": facts.id,
        "floor": verdict.keep_from,
        "at": now,
        "log_end": facts.end,
        "log_start": facts.start,  # until the purge is complete: the entries that it frees are counted from this one
        "holders": {holder: needed_from for needed_from, holder in sorted(needs)[:MAX_HOLDERS]},
    }


class TopicDecision(NamedTuple):
    """A verdict, and the rows that it changes; ``purge_row``: None if the floor does not rise."""

    topic: str
    verdict: PurgeVerdict
    topic_row: dict[str, Any]
    purge_row: dict[str, Any] | None


def decide(state: TopicState, verdict: PurgeVerdict, now: int, step: Step, settings: WalSettings) -> TopicDecision:
    """Return what a verdict changes in a step of a purge."""
    topic, row = state.topic, topic_row(state, verdict, now)
    if step is Step.REVIEW:
        verdict = verdict.model_copy(update={"work": has_work(state, verdict, now, settings)})
    is_checked = step is not Step.EXPLAIN and not verdict.work
    row |= schedule_columns(state.answer, now) if is_checked else {"fault": topic.fault, "checked_at": topic.checked_at}
    if step is not Step.RAISE or not policy.rises(topic.floor, verdict.keep_from):
        return TopicDecision(topic.name, verdict, row, None)
    row["floor"] = verdict.keep_from
    raised = verdict.model_copy(update={"rose": True})
    return TopicDecision(topic.name, raised, row, purge_row(state, verdict, now))


def has_work(state: TopicState, verdict: PurgeVerdict, now: int, settings: WalSettings) -> bool:
    """Return whether a purge would raise the floor, delete entries, or ask regions to flush."""
    topic, facts = state.topic, state.answer
    if isinstance(facts, LogFault) or verdict.blocked or verdict.quarantine:
        return False  # flushing frees nothing in a topic whose purge is blocked
    if policy.rises(topic.floor, verdict.keep_from):
        return True
    if topic.mode is Mode.DELETE and policy.delete_before(topic.floor, facts) is not None:
        return True
    return settings.flushes and bool(policy.regions_to_flush(topic, facts.end, state.readers.regions, now, settings))


class OpenPurge(NamedTuple):
    """A raised floor up to which the log has not been seen to delete; ``log_start``: the topic's start before it."""

    id: int
    kafka_id: str
    floor: int
    log_start: int


def completed_purges(topic: Topic, facts: Facts, open_purges: Sequence[OpenPurge]) -> dict[int, int]:
    """Return the ids of the open purges of a topic that the log has completed, with how many entries each freed.

    Entries that are deleted together are counted once, with the highest completed floor. Purges of an earlier topic of
    the same name never complete. In logical mode Kafka deletes by its own retention: a purge is complete when the floor
    is persisted. ``open_purges``: all of the topic, the lowest floor first.
    """
    purges = [purge for purge in open_purges if purge.kafka_id == facts.id]
    reached = facts.start + policy.SLACK if topic.mode is Mode.DELETE else topic.floor or 0
    freed = {purge.id: 0 for purge in purges if purge.floor <= reached}
    if freed:
        freed[list(freed)[-1]] = max(0, facts.start - purges[0].log_start)
    return freed
