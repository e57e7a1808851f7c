"""Purge pages of topics on a schedule: purge, ask the regions that block a purge to flush, purge again."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sexton.wal.flushing import Flusher
from sexton.wal.messages import MAX_REASONS, PurgePreview, TopicPage, TopicPageReport, TopicPages
from sexton.wal.model import BlockReason, Flushed, Purged
from sexton.wal.port import Floors
from sexton.wal.purger import Purger

log = logging.getLogger(__name__)


class TopicSchedulePort(Protocol):
    """Knows which topics are due: ``wal.sql.schedule.WalSchedule``."""

    def pages(self, after: str) -> TopicPages: ...
    def names(self, page: TopicPage) -> Sequence[str]: ...
    def without_entry_size(self, page: TopicPage) -> Sequence[str]: ...
    def record_purge(self, topics: str) -> None: ...
    def forget(self) -> None: ...


class PurgeRounds:
    """The steps of scheduled rounds, and of the purge of one topic."""

    def __init__(
        self, schedule: TopicSchedulePort, floors: Floors, purger: Purger, flusher: Flusher | None, at_once: int
    ) -> None:
        """``flusher``: None if regions are not asked to flush. ``at_once``: pages purged in parallel."""
        self._schedule, self._floors, self._purger, self._flusher = schedule, floors, purger, flusher
        self._at_once = at_once

    def pages(self, after: str) -> TopicPages:
        """Return the due topics whose names come after one."""
        self._schedule.forget()
        return self._schedule.pages(after).model_copy(update={"at_once": self._at_once})

    def page(self, page: TopicPage, heartbeat: Callable[[], None]) -> TopicPageReport:
        """Purge a page of topics. May be repeated: no entry is deleted twice."""
        names = self._schedule.names(page)
        self._schedule.record_purge(f"{len(names)} topics from {page.first} to {page.last}")
        purged = dict(self._purger.purge(names))
        heartbeat()
        unweighed = self._schedule.without_entry_size(page)
        if unweighed:
            self._purger.estimate_entry_sizes(unweighed)
            heartbeat()
        flushed = self._flush_and_purge(purged, heartbeat)
        for result in purged.values():
            _log(result)
        return _report(purged, flushed)

    def preview(self, topic: str) -> PurgePreview:
        """Return how many regions should flush before a topic is purged."""
        verdict = self._purger.preview([topic]).get(topic)
        # A log that does not answer now may answer when the purge is tried again.
        blocked = verdict is None or any(block.why is not BlockReason.FAULT for block in verdict.blocked)
        behind = 0 if blocked else len(self._floors.regions_to_flush([topic]))
        return PurgePreview(behind=behind, flushes=self._flusher is not None)

    def flush(self, topic: str, heartbeat: Callable[[], None]) -> Flushed:
        """Ask the regions that block the purge of a topic to flush, and wait for them."""
        return self._flusher.flush([topic], heartbeat) if self._flusher is not None else Flushed()

    def purge(self, topic: str) -> Purged | None:
        """Purge one topic; None if it is unknown."""
        self._schedule.record_purge(topic)
        purged = self._purger.purge([topic]).get(topic)
        if purged is not None:
            _log(purged)
        return purged

    def _flush_and_purge(self, purged: dict[str, Purged], heartbeat: Callable[[], None]) -> Flushed:
        """Ask lagging regions to flush, purge their topics again, and add the second results to ``purged``."""
        if self._flusher is None:
            return Flushed()
        # Flushing frees nothing in a topic whose purge is blocked.
        unblocked = [name for name, result in purged.items() if not result.verdict.blocked]
        lagging = sorted({region.topic for region in self._floors.regions_to_flush(unblocked)})
        if not lagging:
            return Flushed()
        flushed = self._flusher.flush(lagging, heartbeat)
        if flushed.flushed:
            for name, result in self._purger.purge(lagging).items():
                if name in purged:
                    purged[name] = _combined(purged[name], result)
        return flushed


def _log(purged: Purged) -> None:
    """Log the result of a purge for operators."""
    if purged.verdict.quarantine:
        log.error("topic %s is quarantined: %s", purged.topic, purged.verdict.quarantine)
    if purged.verdict.lost:
        log.error("topic %s: LOSS: %d regions need deleted entries", purged.topic, purged.verdict.lost)
    if purged.fault:
        log.warning("%s", purged.fault)
    for block in purged.verdict.blocked if not purged.fault else ():
        log.info("topic %s is blocked: %s", purged.topic, block.said)
    if purged.verdict.rose or purged.freed:
        log.info("topic %s is purged below %s; %d entries freed", purged.topic, purged.floor, purged.freed)


def _combined(first: Purged, second: Purged) -> Purged:
    """Return the result of two purges of one topic, in the state after the second."""
    rose = first.verdict.rose or second.verdict.rose
    verdict = second.verdict.model_copy(update={"rose": rose})
    return second.model_copy(update={"freed": first.freed + second.freed, "verdict": verdict})


def _report(purged: Mapping[str, Purged], flushed: Flushed) -> TopicPageReport:
    results = list(purged.values())
    faults = [result.fault for result in results if result.fault]
    unreachable_nodes = [f"{node}: {reason}" for node, reason in flushed.silent.items()]
    return TopicPageReport(
        topics=len(results),
        raised=sum(result.verdict.rose for result in results),
        freed=sum(result.freed for result in results),
        blocked=sum(bool(result.verdict.blocked) and not result.fault for result in results),
        quarantined=sum(bool(result.verdict.quarantine) for result in results),
        losses=sum(result.verdict.lost for result in results),
        faults=len(faults),
        asked=flushed.asked,
        flushed=flushed.flushed,
        said=tuple([*faults, *unreachable_nodes][:MAX_REASONS]),
    )
