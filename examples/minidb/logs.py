"""The log that minidb uses, Kafka or a substitute, and how rows are written to it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sexton.client import Facts, TopicEntry

PAGE = 1_000


class Log(Protocol):
    """A write-ahead log; each topic has one partition."""

    def append(self, topic: str, payloads: Sequence[bytes]) -> int:
        """Append entries with consecutive ids; return the first id. They are durable when this returns."""
        ...

    def read(self, topic: str, at: int, limit: int) -> Sequence[tuple[int, bytes]]:
        """Return entries from an id on, none at the end; raises if ``at`` was deleted."""
        ...

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | Exception]:
        """Return where each topic begins and ends."""
        ...


def facts(log: Log, topic: str) -> Facts:
    """Return where a topic begins and ends; raises the log's fault."""
    answer = log.facts([topic])[topic]
    if isinstance(answer, Exception):
        raise answer
    return answer


def end(log: Log, topic: str) -> int:
    """Return the id that the next entry of a topic gets."""
    return facts(log, topic).end


def entry(region: str, row: str) -> bytes:
    """Return a row as an entry of the log."""
    return json.dumps([region, row]).encode()


def row_of(region: str, value: bytes | None) -> str | None:
    """Return the row of an entry; None if the entry is of another region."""
    if value is None:
        return None
    entry_region, row = json.loads(value)
    return str(row) if entry_region == region else None


class TopicSource:
    """Read a topic for a replay: a ``sexton.client.TopicSource``. ``sexton.client.kafka`` has one for Kafka."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic

    def facts(self) -> Facts:
        return facts(self._log, self._topic)

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        while start < end:
            page = self._log.read(self._topic, start, min(PAGE, end - start))
            if not page:
                return  # the replay reports what is missing
            yield from (TopicEntry(id_, None, value) for id_, value in page)
            start = page[-1][0] + 1

    def close(self) -> None:
        """Nothing is open."""
