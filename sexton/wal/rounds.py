"""What a scheduled round does with a page of topics: purge, ask those that hold topics back to flush, purge again."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sexton.wal.flushing import Flusher
from sexton.wal.messages import MOST_SAID, PurgePreview, TopicPage, TopicPageReport, TopicPages
from sexton.wal.model import Flushed, Purged, Why
from sexton.wal.port import Floors
from sexton.wal.purger import Purger

log = logging.getLogger(__name__)


class TopicSchedulePort(Protocol):
    """Whose turn it is: ``wal.turns.WalTurns``."""

    def pages(self, after: str) -> TopicPages: ...
    def names(self, page: TopicPage) -> Sequence[str]: ...
    def unweighed(self, page: TopicPage) -> Sequence[str]: ...
    def forget(self) -> None: ...


class PurgeRounds:
    """The work of rounds, and the steps of a purge of one topic."""

    def __init__(
        self, turns: TopicSchedulePort, floors: Floors, purger: Purger, flusher: Flusher | None, at_once: int
    ) -> None:
        """``flusher``: None where nobody is asked to flush. ``at_once``: pages at a time."""
        self._turns, self._floors, self._purger, self._flusher = turns, floors, purger, flusher
        self._at_once = at_once

    def pages(self, after: str) -> TopicPages:
        """Return what is due, of the topics whose names come after one."""
        self._turns.forget()
        return self._turns.pages(after).model_copy(update={"at_once": self._at_once})

    def page(self, page: TopicPage, heartbeat: Callable[[], None]) -> TopicPageReport:
        """Purge a page of topics. May be repeated: what was done is not done again."""
        names = self._turns.names(page)
        purged = dict(self._purger.purge(names))
        heartbeat()
        if new := self._turns.unweighed(page):
            self._purger.weigh(new)
            heartbeat()
        flushed = Flushed()
        # Where something blocks it flushes free nothing.
        free = [name for name in names if name in purged and not purged[name].verdict.blocked]
        held = sorted({its.topic for its in self._floors.behind(free)}) if self._flusher is not None else []
        if held and self._flusher is not None:
            flushed = self._flusher.flush(held, heartbeat)
            again = self._purger.purge(held) if flushed.flushed else {}
            purged |= {name: _both(purged[name], its) for name, its in again.items() if name in purged}
        for its in purged.values():
            _log(its)
        return _report(purged, flushed)

    def look(self, topic: str) -> PurgePreview:
        """Look at one topic, and whether regions should flush before it is purged."""
        verdict = self._purger.look([topic]).get(topic)
        # A log that is silent now may answer when the purge is tried again.
        blocked = verdict is None or any(b.why is not Why.FAULT for b in verdict.blocked)
        behind = 0 if blocked else len(self._floors.behind([topic]))
        return PurgePreview(behind=behind, flushes=self._flusher is not None)

    def flush(self, topic: str, heartbeat: Callable[[], None]) -> Flushed:
        """Ask the regions that hold one topic back, and wait."""
        return self._flusher.flush([topic], heartbeat) if self._flusher is not None else Flushed()

    def purge(self, topic: str) -> Purged | None:
        """Purge one topic; None where nobody has told of it."""
        purged = self._purger.purge([topic]).get(topic)
        if purged is not None:
            _log(purged)
        return purged


def _log(its: Purged) -> None:
    """Say in the worker's log what somebody should know of."""
    if its.verdict.quarantine:
        log.error("topic %s is quarantined: %s", its.topic, its.verdict.quarantine)
    if its.verdict.lost:
        log.error("topic %s: LOSS: %d regions need what is gone", its.topic, its.verdict.lost)
    if its.fault:
        log.warning("%s", its.fault)
    for block in its.verdict.blocked if not its.fault else ():
        log.info("topic %s is blocked: %s", its.topic, block.said)
    if its.verdict.rose or its.freed:
        log.info("topic %s is purged below %s; %d entries freed", its.topic, its.floor, its.freed)


def _both(first: Purged, second: Purged) -> Purged:
    """Return what came of two purges of one topic, as the second one left it."""
    rose = first.verdict.rose or second.verdict.rose
    verdict = second.verdict.model_copy(update={"rose": rose})
    return second.model_copy(update={"freed": first.freed + second.freed, "verdict": verdict})


def _report(purged: Mapping[str, Purged], flushed: Flushed) -> TopicPageReport:
    every = list(purged.values())
    faults = [its.fault for its in every if its.fault]
    return TopicPageReport(
        topics=len(every),
        raised=sum(its.verdict.rose for its in every),
        freed=sum(its.freed for its in every),
        blocked=sum(bool(its.verdict.blocked) and not its.fault for its in every),
        quarantined=sum(bool(its.verdict.quarantine) for its in every),
        losses=sum(its.verdict.lost for its in every),
        faults=len(faults),
        asked=flushed.asked,
        flushed=flushed.flushed,
        said=tuple([*faults, *(f"{node}: {why}" for node, why in flushed.silent.items())][:MOST_SAID]),
    )
