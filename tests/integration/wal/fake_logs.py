"""Logs that misbehave in one way, over a log that works."""

from collections.abc import Callable, Mapping, Sequence

from sexton.wal.model import Facts
from sexton.wal.port import LogFault
from tests.integration.wal.logs import LogPlace

Answers = Mapping[str, Facts | LogFault]
SLOW_SECONDS = 39


class InterruptedLog:
    """Something happens right after its first answer."""

    def __init__(self, place: LogPlace, action: Callable[[], None]) -> None:
        self._log, self._actions = place.log, [action]
        self.delete_before, self.check = self._log.delete_before, self._log.check

    def facts(self, topics: Sequence[str]) -> Answers:
        answers = self._log.facts(topics)
        if self._actions:
            self._actions.pop()()
        return answers


class SlowLog:
    """Its first answer takes long, and something happens before the second one."""

    def __init__(self, place: LogPlace, clock: list[float], action: Callable[[], object]) -> None:
        self._log, self._clock, self._action, self._requests = place.log, clock, action, 0
        self.delete_before, self.check = self._log.delete_before, self._log.check

    def facts(self, topics: Sequence[str]) -> Answers:
        self._requests += 1
        if self._requests == 1:
            self._clock[0] += SLOW_SECONDS
        if self._requests == 2:
            self._action()
        return self._log.facts(topics)


class UnansweringLog:
    """It deletes, and does not answer requests to delete."""

    def __init__(self, place: LogPlace) -> None:
        self._log = place.log
        self.facts, self.check = self._log.facts, self._log.check

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, LogFault]:
        self._log.delete_before(offsets)
        return {name: LogFault(name, "REQUEST_TIMED_OUT", "no answer", passes=True) for name in offsets}
