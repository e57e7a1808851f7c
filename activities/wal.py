"""Purge topics of a write-ahead log, as activities. Each may be repeated: none deletes above a persisted floor."""

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.wal.messages import PurgePreview, TopicPage, TopicPageReport, TopicPages
from sexton.wal.model import Flushed, Purged
from sexton.wal.port import UnknownTopic
from sexton.wal.rounds import PurgeRounds

SILENCE_SECONDS = 300.0
"""A page calls the log a few times, each call for at most about twenty seconds, and lists its regions."""


class WalActivities:
    """The activities of WAL purges; a worker process has one instance."""

    def __init__(self, rounds: PurgeRounds) -> None:
        self._rounds = rounds

    @activity.defn(no_thread_cancel_exception=True)
    def due_topics(self, after: str = "") -> TopicPages:
        """Return the due topics whose names come after one, as pages."""
        with refusals(), AutoHeartbeat():
            return self._rounds.pages(after)

    @activity.defn(no_thread_cancel_exception=True)
    def purge_page(self, page: TopicPage) -> TopicPageReport:
        """Purge a page of topics: purge, flush, purge again."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS) as heart:
            return self._rounds.page(page, heart.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def prepare_purge(self, topic: str) -> PurgePreview:
        """Return how many regions should flush before a topic is purged."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS):
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
            purged = self._rounds.purge(topic)
            if purged is None:
                raise UnknownTopic(topic)
            return purged
