"""The steps of a purge: persist how far topics may be purged, tell the log, look what came of it.

Each may be repeated, by anyone and at any time: no step goes above a persisted floor.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from sexton.kernel.crash_points import reached
from sexton.wal import policy
from sexton.wal.model import Facts, LogStateBeforeRead, Mode, Purged, PurgeVerdict, Topic
from sexton.wal.port import Floors, LogFault, TopicLog

FRESH_SECONDS = 5.0
"""A topic that somebody made anew has the same name: its id was seen no longer ago than this before anything goes."""

STALE_SECONDS = 1.0
"""After so long a leader that was away for a while knows that another one leads."""


class Purger:
    """Purges topics, a hundred or one at a time."""

    def __init__(self, log: TopicLog, floors: Floors, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._floors, self._clock = log, floors, clock

    def look(self, names: Sequence[str]) -> Mapping[str, PurgeVerdict]:
        """Say how far each topic may be purged; nothing is deleted, and no floor raised."""
        before = self._floors.before(names)
        return self._floors.judge(self._ask(names, before), before)

    def purge(self, names: Sequence[str]) -> Mapping[str, Purged]:
        """Raise the floors of topics, delete what lies below, and see what came of it. Unknown topics are left out."""
        before = self._floors.before(names)
        asked_at = self._clock()
        answers = self._ask(names, before)
        verdicts = self._floors.raise_floors(answers, before)
        topics = self._floors.topics(names)
        faults = self._delete(topics, answers, asked_at)
        reached("wal.deleted")
        after = self._log.facts(sorted(topics))
        # What the log did not answer it may have done: what counts is where the topic begins now.
        left = {name: its for name, its in faults.items() if not _done(topics[name], after[name])}
        unasked = {name: its for name, its in answers.items() if isinstance(its, LogFault)}
        self._floors.seen(after, unasked | left)
        return {
            name: _purged(topic, verdicts[name], answers[name], after[name], left.get(name))
            for name, topic in topics.items()
            if name in verdicts  # else somebody made it known just now
        }

    def weigh(self, names: Sequence[str]) -> None:
        """Have the sizes of entries looked at, of topics where that was long ago: an estimate, once a day."""
        found = self._log.facts(names)
        there = {n: its for n, its in found.items() if isinstance(its, Facts) and its.end > its.start}
        self._floors.weighed(names, self._log.weigh(there))

    def _ask(self, names: Sequence[str], before: LogStateBeforeRead) -> Mapping[str, Facts | LogFault]:
        """Ask the log; where an end is below what is safe, ask again whether a newer leader says otherwise.

        A leader that was away answers what it knew before, until it hears that it leads no more. What the same leader
        said stands, whatever it says later: an end that moved back soon moves on, over other entries.
        """
        answers = dict(self._log.facts(names))
        led = {n: its.leader for n, its in answers.items() if isinstance(its, Facts) and its.leader is not None}
        low = [name for name in led if answers[name].end < before.safe.get(name, 0)]  # type: ignore[union-attr]
        if low:
            time.sleep(STALE_SECONDS)
            for name, its in self._log.facts(low).items():
                if isinstance(its, Facts) and its.leader is not None and its.leader > led[name]:
                    answers[name] = its
        return answers

    def _delete(
        self, topics: Mapping[str, Topic], answers: Mapping[str, Facts | LogFault], asked_at: float
    ) -> Mapping[str, LogFault]:
        """Tell the log, where there is something to delete; return what it refused."""
        # One that gave no answer would keep the others waiting as long once more.
        may = [n for n, t in topics.items() if _may(t) and isinstance(answers[n], Facts)]
        if self._clock() - asked_at > FRESH_SECONDS:
            asked_at = self._clock()
            answers = self._log.facts(may)
            if self._clock() - asked_at > FRESH_SECONDS:
                return {name: LogFault(name, "SLOW", "it takes long to answer", passes=True) for name in may}
        # Asked as late as can be: a stop counts within 5 s, and who was disabled or reset meanwhile is left alone.
        if self._floors.stopped() is not None:
            return {}
        topics = self._floors.topics(may)
        offsets: dict[str, int] = {}
        for name in may:
            its, topic = answers[name], topics.get(name)
            if topic is not None and _may(topic) and isinstance(its, Facts) and its.id == topic.kafka_id:
                offset = policy.delete_before(topic.floor, its)
                if offset is not None:
                    offsets[name] = offset
        told = self._log.delete_before(offsets)
        return {name: its for name, its in told.items() if isinstance(its, LogFault)}


def _may(topic: Topic) -> bool:
    return topic.enabled and not topic.quarantined and topic.mode is Mode.DELETE


def _done(topic: Topic, after: Facts | LogFault) -> bool:
    return isinstance(after, Facts) and after.start >= (topic.floor or 0) - policy.SLACK


def _purged(
    topic: Topic, verdict: PurgeVerdict, before: Facts | LogFault, after: Facts | LogFault, fault: LogFault | None
) -> Purged:
    starts = [its.start if isinstance(its, Facts) else None for its in (before, after)]
    freed = starts[1] - starts[0] if starts[0] is not None and starts[1] is not None else 0
    fault = fault or (before if isinstance(before, LogFault) else None)
    return Purged(
        topic=topic.name,
        floor=topic.floor,
        log_start=starts[1],
        freed=max(0, freed),
        verdict=verdict,
        fault=str(fault or ""),
        passes=fault is not None and fault.passes,
    )
