"""Purge topics of a write-ahead log, as activities. Each may be repeated: none deletes above a persisted floor."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.wal.messages import PurgedPage, PurgePreview, TopicReview
from sexton.wal.model import Flushed, Purged
from sexton.wal.port import UnknownTopic

if TYPE_CHECKING:
    from sexton.wal.purger import PurgeRounds

log = logging.getLogger(__name__)
SILENCE_SECONDS = 300.0
"""A step calls the log a few times, each call for at most about twenty seconds, and lists regions."""


class WalActivities:
    """The activities of WAL purges; a worker process has one instance."""

    def __init__(self, rounds: "PurgeRounds", running: Callable[[], Collection[str]]) -> None:
        """``running``: returns the topics whose own purges run or are paused, by what Temporal lists."""
        self._rounds, self._running = rounds, running

    @activity.defn(no_thread_cancel_exception=True)
    def review_topics(self, after: str = "") -> TopicReview:
        """Return which of the due topics whose names come after one have work."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS) as heart:
            review = self._rounds.review(after, heart.heartbeat)
            counts = review.counts
            text = "review of topics: %d due, %d with work, %d blocked, %d with a fault"
            log.info(text, counts.topics, len(review.work), counts.blocked, counts.faults)
            return review

    @activity.defn(no_thread_cancel_exception=True)
    def prepare_purge(self, topic: str) -> PurgePreview:
        """Begin the purge of a topic: return how many regions should flush first."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS):
            log.info("purge of topic %s begins", topic)
            return self._rounds.preview(topic)

    @activity.defn(no_thread_cancel_exception=True)
    def flush_regions(self, topic: str) -> Flushed:
        """Ask the regions that block the purge of a topic to flush, and wait for them."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS) as heart:
            return self._rounds.flush(topic, heart.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def purge_topic(self, topic: str) -> Purged:
        """Persist how far a topic may be purged, make the log delete the entries below, and record the result."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS):
            purged = self._rounds.purge([topic]).get(topic)
            if purged is None:
                raise UnknownTopic(topic)
            level = logging.WARNING if purged.fault else logging.INFO
            fault = "; the log refused something" if purged.fault else ""
            log.log(level, "purge of topic %s ends: %d entries freed%s", topic, purged.freed, fault)
            return purged

    @activity.defn(no_thread_cancel_exception=True)
    def purge_topics(self, names: Sequence[str]) -> PurgedPage:
        """Purge a page of topics, as ``purge_topic`` does each, except those whose own purge runs or is paused.

        These are read here, in each attempt: a page may have waited for a slot, or for another worker, for minutes.
        """
        with refusals(), AutoHeartbeat(SILENCE_SECONDS):
            page = self._rounds.purge_page(names, self._running())
            log.info("purge of %d topics ends: %d purged, %d tried again", len(names), page.purged, len(page.again))
            return page
