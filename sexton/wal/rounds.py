"""The steps of purges: review the topics that are due, and prepare, flush and purge those that have work."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from sexton.wal.flushing import Flusher
from sexton.wal.messages import MAX_REASONS, PurgePreview, TopicCounts, TopicReview, TopicWork
from sexton.wal.model import BlockReason, Flushed, Purged, PurgeVerdict
from sexton.wal.port import Step
from sexton.wal.purger import Purger, Reviewed
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.store import WalSchedule

log = logging.getLogger(__name__)

PAGE_TOPICS = 100
"""Topics that the log is asked about in one request."""
MAX_TOPICS = 2_000
"""Topics of one review; the next one continues behind the last of them."""
MAX_WORK = 500
"""Topics with work that one review returns; the same holds."""
POLL_SECONDS = 1.0


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
        for name, topic in sorted(reviewed.items()):
            _log_verdict(name, topic.verdict, str(topic.fault or ""))
        work = [TopicWork(topic=name, instance=topic.instance) for name, topic in sorted(topics.items())]
        return TopicReview(
            work=tuple(work[:MAX_WORK]),
            more=len(work) > MAX_WORK or len(names) == MAX_TOPICS,
            after=work[MAX_WORK - 1].topic if len(work) > MAX_WORK else names[-1] if names else after,
            counts=_counts(reviewed),
        )

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

    def purge(self, topic: str) -> Purged | None:
        """Purge one topic; None if it is unknown."""
        self._schedule.record_purge(topic)
        purged = self._purger.purge([topic]).get(topic)
        if purged is not None:
            _log(purged)
        return purged

    def _review_pages(self, names: Sequence[str], heartbeat: Callable[[], None]) -> Mapping[str, Reviewed]:
        """Review topics, a page in each request to the log: a page whose log does not answer delays no other."""
        pages = [names[n : n + PAGE_TOPICS] for n in range(0, len(names), PAGE_TOPICS)]
        reviewed: dict[str, Reviewed] = {}
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="review") as pool:
            pending = {pool.submit(self._review_page, page) for page in pages}
            try:
                while pending:
                    done, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                    for page in done:
                        reviewed |= page.result()
                    heartbeat()
            finally:  # when interrupted, the pages under way end, and no other begins
                pool.shutdown(cancel_futures=True)
        return reviewed

    def _review_page(self, names: Sequence[str]) -> Mapping[str, Reviewed]:
        return self._purger.review(names, self._schedule.without_entry_size(names))


def _log(purged: Purged) -> None:
    """Log the result of a purge for operators."""
    _log_verdict(purged.topic, purged.verdict, purged.fault)
    if purged.verdict.rose or purged.freed:
        log.info("topic %s is purged below %s; %d entries freed", purged.topic, purged.floor, purged.freed)


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


def _counts(reviewed: Mapping[str, Reviewed]) -> TopicCounts:
    faults = [str(topic.fault) for _, topic in sorted(reviewed.items()) if topic.fault]
    verdicts = [topic.verdict for topic in reviewed.values()]
    return TopicCounts(
        topics=len(reviewed),
        blocked=sum(bool(topic.verdict.blocked) and not topic.fault for topic in reviewed.values()),
        quarantined=sum(bool(verdict.quarantine) for verdict in verdicts),
        losses=sum(verdict.lost for verdict in verdicts),
        faults=len(faults),
        reasons=tuple(faults[:MAX_REASONS]),
    )
