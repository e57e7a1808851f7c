"""The log, as minidb sees it: Kafka, or what stands for it; and how rows are written to it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sexton.client import Facts, TopicEntry

PAGE = 1_000


class Log(Protocol):
    """What is written to before all else; each topic has one partition."""

    def append(self, topic: str, payloads: Sequence[bytes]) -> int:
        """Append entries, next to each other; return the id of the first. When it returns they are durable."""
        ...

    def read(self, topic: str, at: int, limit: int) -> Sequence[tuple[int, bytes]]:
        """Return entries from one on, none at the end; it raises where ``at`` was deleted."""
        ...

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | Exception]:
        """Return where each topic begins and ends."""
        ...


def facts(log: Log, topic: str) -> Facts:
    """Return where a topic begins and ends; raises what the log has against it."""
    found = log.facts([topic])[topic]
    if isinstance(found, Exception):
        raise found
    return found


def end(log: Log, topic: str) -> int:
    """Return the id that the next entry of a topic gets."""
    return facts(log, topic).end


def entry(region: str, row: str) -> bytes:
    """Return a row as the log has it."""
    return json.dumps([region, row]).encode()


def row_of(region: str, value: bytes | None) -> str | None:
    """Return the row that an entry carries, where it is one of this region."""
    if value is None:
        return None
    of, row = json.loads(value)
    return str(row) if of == region else None


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
                return  # the replay says what is missing
            yield from (TopicEntry(id_, None, value) for id_, value in page)
            start = page[-1][0] + 1

    def close(self) -> None:
        """Nothing is open."""
