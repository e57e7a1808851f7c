"""What purging asks of a log, and what it may refuse."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sexton.kernel.errors import SextonError
from sexton.operators.controls.model import Halt
from sexton.wal.model import Candidate, Facts, LogStateBeforeRead, Missing, PurgeVerdict, Topic


class LogFault(SextonError):
    """A topic's log refuses or does not answer; other topics go on. ``reason``: as Kafka names it.

    Of a topic that is not there it is ``UNKNOWN_TOPIC_OR_PART``, whatever the log.
    """

    def __init__(self, topic: str, reason: str, said: str, *, passes: bool) -> None:
        super().__init__(f"topic {topic}: {reason}: {said}")
        self.topic, self.reason, self.passes = topic, reason, passes


class TopicLog(Protocol):
    """A log with one partition a topic: Apache Kafka, or the embedded one. Safe to share between threads.

    What is asked for many topics is answered for each: a fault of one is a value, and never ends the others.
    """

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        """Return what there is of each topic now, read at the leaders of their partitions."""
        ...

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        """Delete all records below an offset, topic by topic; return where each begins then.

        One at or below a topic's start is done already. A fault that ``passes`` may have taken effect: ask ``facts``.

        Raises:
            ValueError: an offset is not above 0; nothing was deleted. To Kafka -1 means everything.
        """
        ...

    def weigh(self, topics: Mapping[str, Facts]) -> Mapping[str, float]:
        """Return the bytes of an entry, on average over some of each topic's newest; what is not known is left out."""
        ...

    def check(self, topic: str) -> Sequence[str]:
        """Return what of the topic's settings endangers what is written to it; for people."""
        ...


class NodeSilent(SextonError):
    """A node does not take a request to flush."""

    passes = True


class FlushClient(Protocol):
    """Asks nodes to flush."""

    def flush(self, url: str, regions: Sequence[Candidate]) -> None:
        """Ask one node to flush regions of its own; it says that it will. Raises ``NodeSilent``."""
        ...


class Floors(Protocol):
    """Where floors are persisted: ``wal.floors.FloorStore``."""

    def before(self, names: Sequence[str]) -> LogStateBeforeRead: ...
    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]: ...
    def behind(self, names: Sequence[str]) -> Sequence[Candidate]: ...
    def judge(
        self, answers: Mapping[str, Facts | LogFault], before: LogStateBeforeRead
    ) -> Mapping[str, PurgeVerdict]: ...
    def raise_floors(
        self, answers: Mapping[str, Facts | LogFault], before: LogStateBeforeRead
    ) -> Mapping[str, PurgeVerdict]: ...
    def seen(self, answers: Mapping[str, Facts | LogFault], faults: Mapping[str, LogFault]) -> None: ...
    def stopped(self) -> Halt | None: ...
    def weighed(self, names: Sequence[str], sizes: Mapping[str, float]) -> None: ...


class UnknownTopic(SextonError):
    """Nobody has told of a topic of that name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"unknown topic {topic}; see: sexton wal list")


class UnknownRegion(SextonError):
    """The topic's map does not name that region."""

    def __init__(self, topic: str, region: str) -> None:
        super().__init__(f"region {region} is not mapped to topic {topic}; map it before its first append")


class OldMap(SextonError):
    """A newer map of the topic is known."""


class OldEpoch(SextonError):
    """Another leader of the region is known, or in this epoch it was opened from a manifest that knew more."""


class ReplayRefused(SextonError):
    """Entries that the region needs are gone, or nobody knows which it needs; it must not open as if nothing were."""

    def __init__(self, why: str, missing: Missing | None = None) -> None:
        super().__init__(why)
        self.missing = missing


class PinEnded(SextonError):
    """The replay's pin was released, or nobody renewed it: what it has read so far may have holes."""
