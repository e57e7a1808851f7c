"""Purge pages of topics: persist how far each may be purged, make the log delete, record the result; run the rounds.

Each step may be repeated, by any process and at any time: no step deletes at or above a persisted floor.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import NamedTuple

from sexton.kernel.crash_points import reached
from sexton.wal import policy
from sexton.wal.flushing import Flusher
from sexton.wal.messages import MAX_REASONS, PurgedPage, PurgePreview, TopicCounts, TopicReview, TopicWork
from sexton.wal.model import BlockReason, Facts, Flushed, LogStateBeforeRead, Mode, Purged, PurgeVerdict, Topic
from sexton.wal.port import LogFault, Step, TopicLog
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.store import WalSchedule
from sexton.wal.verdict_rows import Answers

log = logging.getLogger(__name__)
FRESH_SECONDS = 5.0
"""A topic that was deleted and created again has the same name: its id is at most this old when its log deletes."""

STALE_SECONDS = 1.0
"""After this time a leader that was disconnected knows that another one leads."""
PAGE_TOPICS = 100
"""Topics that the log is asked about in one request."""
MAX_TOPICS = 2_000
"""Topics of one review; the next one continues behind the last of them."""
MAX_WORK = 500
"""Topics with work that one review returns; the same holds."""
POLL_SECONDS = 1.0


class Reviewed(NamedTuple):
    """The verdict on a topic, and the fault of its log, if there is one."""

    verdict: PurgeVerdict
    fault: LogFault | None


class Purger:
    """Purges topics, and reviews them by the hundred."""

    def __init__(self, log: TopicLog, floors: FloorStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._floors, self._clock = log, floors, clock

    def preview(self, names: Sequence[str], step: Step = Step.EXPLAIN) -> Mapping[str, PurgeVerdict]:
        """Return how far each topic may be purged; nothing is deleted, and no floor is raised."""
        before = self._floors.state_before_read(names)
        return self._floors.judge(self._read_log(names, before), before, step)

    def review(self, names: Sequence[str]) -> Mapping[str, Reviewed]:
        """Return which topics have work, and why the others have none; complete purges that the log has carried out.

        Nothing is deleted, and no floor is raised. Unknown topics are left out. For a topic with work this counts as no
        purge without a fault: its own one may be paused, or never run.
        """
        before = self._floors.state_before_read(names)
        answers = self._read_log(names, before)
        without_size = self._floors.without_entry_size(names)
        if without_size:  # it decides whether a region should flush
            filled = {n: a for n in without_size if isinstance(a := answers[n], Facts) and a.end > a.start}
            self._floors.record_entry_sizes(without_size, self._log.entry_sizes(filled))
        verdicts = self._floors.judge(answers, before, Step.REVIEW)
        faults = {name: answer for name, answer in answers.items() if isinstance(answer, LogFault)}
        idle = {name: answers[name] for name, verdict in verdicts.items() if not verdict.work}
        self._floors.record_log_state(idle, faults)
        return {name: Reviewed(verdict, faults.get(name)) for name, verdict in verdicts.items()}

    def purge(self, names: Sequence[str]) -> Mapping[str, Purged]:
        """Raise the floors of topics, delete the entries below, and return the results.

        Unknown topics are left out, and those that another transaction holds while others are purged.
        """
        before = self._floors.state_before_read(names)
        read_at = self._clock()
        answers = self._read_log(names, before)
        verdicts = self._floors.judge(answers, before, Step.RAISE)
        topics = self._floors.topics(list(verdicts))
        faults = {name: answer for name in topics if isinstance(answer := answers[name], LogFault)}
        faults |= self._delete(topics, answers, read_at)
        reached("wal.deleted")
        after = self._log.facts(list(topics))
        for name, facts in after.items():
            # The log may have carried out a request that it did not answer: what counts is where the topic begins now.
            is_deleted = isinstance(facts, Facts) and facts.start >= (topics[name].floor or 0) - policy.SLACK
            if is_deleted and isinstance(answers[name], Facts):
                faults.pop(name, None)
        self._floors.record_log_state(after, faults)
        return {
            name: _purged(topic, verdicts[name], (answers[name], after[name]), faults.get(name))
            for name, topic in topics.items()
        }

    def _read_log(self, names: Sequence[str], before: LogStateBeforeRead) -> Answers:
        """Read the log; where an end is below the safe one, read again whether a newer leader reports another end.

        A leader that was disconnected reports its old state until it learns that another one leads. The first answer of
        a leader counts, even if the same leader reports a higher end later: an end that moved back soon rises again,
        over other entries.
        """
        answers = dict(self._log.facts(names))
        epochs = {
            name: answer.leader
            for name, answer in answers.items()
            if isinstance(answer, Facts) and answer.leader is not None and answer.end < before.safe.get(name, 0)
        }
        if epochs:
            time.sleep(STALE_SECONDS)
            second_answers = self._log.facts(list(epochs))
            answers |= {
                name: answer
                for name, answer in second_answers.items()
                if isinstance(answer, Facts) and answer.leader is not None and answer.leader > epochs[name]
            }
        return answers

    def _delete(self, topics: Mapping[str, Topic], answers: Answers, read_at: float) -> dict[str, LogFault]:
        """Make the log delete the entries below the floors; return its faults. ``answers`` were read at ``read_at``."""
        names = [name for name, topic in topics.items() if _may_delete(topic) and isinstance(answers[name], Facts)]
        if names and self._clock() - read_at > FRESH_SECONDS:
            read_at = self._clock()
            answers = self._log.facts(names)
            if self._clock() - read_at > FRESH_SECONDS:
                return {name: LogFault(name, "SLOW", "it takes too long to answer", passes=True) for name in names}
        # Read as late as possible: a stop takes effect within 5 s, and a topic disabled or reset since is left alone.
        topics = self._floors.topics(names)
        stopped = self._floors.stopped(topics.values())
        offsets: dict[str, int] = {}
        for name, topic in topics.items():
            answer = answers[name]
            if _may_delete(topic) and name not in stopped and isinstance(answer, Facts) and answer.id == topic.kafka_id:
                offset = policy.delete_before(topic.floor, answer)
                if offset is not None:
                    offsets[name] = offset
        deleted = self._log.delete_before(offsets) if offsets else {}
        return {name: answer for name, answer in deleted.items() if isinstance(answer, LogFault)}


def _may_delete(topic: Topic) -> bool:
    return topic.enabled and not topic.quarantined and topic.mode is Mode.DELETE


def _purged(
    topic: Topic, verdict: PurgeVerdict, facts: tuple[Facts | LogFault, Facts | LogFault], fault: LogFault | None
) -> Purged:
    """Return the result of a purge. ``facts``: before and after."""
    before, after = facts
    start_after = after.start if isinstance(after, Facts) else None
    start_before = before.start if isinstance(before, Facts) else start_after
    return Purged(
        topic=topic.name,
        floor=topic.floor,
        log_start=start_after,
        freed=0 if start_after is None else max(0, start_after - (start_before or 0)),
        verdict=verdict,
        fault=str(fault or ""),
        passes=fault is not None and fault.passes,
    )


class PurgeRounds:
    """The steps of scheduled rounds, and of the purge of one topic."""

    def __init__(
        self, schedule: WalSchedule, floors: FloorStore, purger: Purger, flusher: Flusher | None, at_once: int
    ) -> None:
        """``flusher``: None if regions are not asked to flush. ``at_once``: pages of topics reviewed in parallel."""
        self._schedule, self._floors, self._purger, self._flusher = schedule, floors, purger, flusher
        self._at_once = at_once

    def review(self, after: str, heartbeat: Callable[[], None]) -> TopicReview:
        """Return which of the due topics whose names come after one have work.

        A topic without work counts as checked. One with work stays due until its purge begins, so a review may be
        repeated.
        """
        self._schedule.forget()
        names = self._schedule.due(after, MAX_TOPICS)
        reviewed = self._review_pages(names, heartbeat)
        topics = self._floors.topics([name for name, topic in reviewed.items() if topic.verdict.work])
        flush = self._topics_to_flush(list(topics))
        for name, topic in sorted(reviewed.items()):
            _log_verdict(name, topic.verdict, str(topic.fault or ""))
        faults = [str(topic.fault) for _, topic in sorted(reviewed.items()) if topic.fault]
        verdicts = [topic.verdict for topic in reviewed.values()]
        work = [
            TopicWork(topic=name, instance=topic.instance, flushes=name in flush)
            for name, topic in sorted(topics.items())
        ]
        return TopicReview(
            work=tuple(work[:MAX_WORK]),
            more=len(work) > MAX_WORK or len(names) == MAX_TOPICS,
            after=work[MAX_WORK - 1].topic if len(work) > MAX_WORK else names[-1] if names else after,
            counts=TopicCounts(
                topics=len(reviewed),
                blocked=sum(bool(topic.verdict.blocked) and not topic.fault for topic in reviewed.values()),
                quarantined=sum(bool(verdict.quarantine) for verdict in verdicts),
                losses=sum(verdict.lost for verdict in verdicts),
                faults=len(faults),
                reasons=tuple(faults[:MAX_REASONS]),
            ),
        )

    def _topics_to_flush(self, names: Sequence[str]) -> Collection[str]:
        """Return those of some topics that have regions which should flush first."""
        if self._flusher is None:
            return ()
        return {region.topic for region in self._floors.regions_to_flush(names)}

    def preview(self, topic: str) -> PurgePreview:
        """Begin the purge of a topic: return how many regions should flush first."""
        verdict = self._purger.preview([topic], Step.PREPARE).get(topic)
        # A log that does not answer now may answer when the purge is tried again.
        blocked = verdict is None or any(block.why is not BlockReason.FAULT for block in verdict.blocked)
        behind = 0 if blocked else len(self._floors.regions_to_flush([topic]))
        return PurgePreview(behind=behind, flushes=self._flusher is not None)

    def flush(self, topic: str, heartbeat: Callable[[], None]) -> Flushed:
        """Ask the regions that block the purge of a topic to flush, and wait for them."""
        return self._flusher.flush(topic, heartbeat) if self._flusher is not None else Flushed()

    def purge(self, names: Sequence[str]) -> Mapping[str, Purged]:
        """Purge topics; unknown ones are left out."""
        self._schedule.record_purges(names)
        results = self._purger.purge(names)
        for name, purged in results.items():
            _log_verdict(name, purged.verdict, purged.fault)
            if purged.verdict.rose or purged.freed:
                log.info("topic %s is purged below %s; %d entries freed", name, purged.floor, purged.freed)
        return results

    def purge_page(self, names: Sequence[str], running: Collection[str]) -> PurgedPage:
        """Purge topics that need no flush, except ``running``; return how many were purged, and which to try again."""
        left = [name for name in names if name not in running]
        results = self.purge(left) if left else {}
        again = tuple(name for name in left if name not in results or results[name].fault)
        return PurgedPage(purged=len(left) - len(again), running=len(names) - len(left), again=again)

    def _review_pages(self, names: Sequence[str], heartbeat: Callable[[], None]) -> Mapping[str, Reviewed]:
        """Review topics, a page in each request to the log: a page whose log does not answer delays no other."""
        pages = [names[n : n + PAGE_TOPICS] for n in range(0, len(names), PAGE_TOPICS)]
        reviewed: dict[str, Reviewed] = {}
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="review") as pool:
            pending = {pool.submit(self._purger.review, page) for page in pages}
            try:
                while pending:
                    done, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                    for page in done:
                        reviewed |= page.result()
                    heartbeat()
            finally:  # when interrupted, the pages under way end, and no other begins
                pool.shutdown(cancel_futures=True)
        return reviewed


def _log_verdict(topic: str, verdict: PurgeVerdict, fault: str) -> None:
    """Log what is wrong with a topic."""
    if verdict.quarantine:
        log.error("topic %s is quarantined: %s", topic, verdict.quarantine)
    if verdict.lost:
        log.error("topic %s: LOSS: %d regions need deleted entries", topic, verdict.lost)
    if fault:
        log.warning("%s", fault)
    for block in verdict.blocked if not fault else ():
        log.info("topic %s is blocked: %s", topic, block.said)
