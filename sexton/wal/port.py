"""Define what purging needs of a log, and the errors of the capability, all under ``SextonError``."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from sexton.kernel.errors import Conflict, Ended, NotFound, SextonError, TooMany
from sexton.wal.model import Facts, Region


class LogFault(SextonError):
    """A topic's log refuses a request or does not answer; other topics are not affected. ``reason``: Kafka's name.

    For a topic that does not exist it is ``UNKNOWN_TOPIC_OR_PART``, in every log.
    """

    def __init__(self, topic: str, reason: str, detail: str, *, passes: bool) -> None:
        """``passes``: the fault is transient."""
        super().__init__(f"topic {topic}: {reason}: {detail}")
        self.reason, self.passes = reason, passes


class TopicLog(Protocol):
    """A log with one partition per topic: Apache Kafka, or the embedded one. Threads may share it.

    A request for many topics returns an answer for each: a fault is a value and never ends the requests for the others.
    """

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        """Return the present state of each topic, read at the leaders of their partitions."""
        ...

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        """Delete all records below an offset, for each topic; return the offset at which each begins afterwards.

        An offset at or below a topic's start succeeds without effect. A transient fault may have taken effect: read
        ``facts``.

        Raises:
            ValueError: an offset is not above 0; nothing was deleted. Kafka reads -1 as the end of the topic.
        """
        ...

    def entry_sizes(self, topics: Mapping[str, Facts]) -> Mapping[str, float]:
        """Return the average bytes of an entry, over some of each topic's newest; unknown sizes are left out."""
        ...

    def check(self, topic: str) -> Sequence[str]:
        """Return the settings of a topic that endanger its entries, as sentences for operators."""
        ...


ACL_OPERATIONS = ("Describe", "DescribeConfigs", "Delete", "Read")
"""Per topic: id, partitions and offsets; settings; DeleteRecords; the newest entries, from which sizes are estimated.

It joins no consumer group, so it needs no ACL of a group, and none of the cluster.
"""


def acl_commands(topics: Iterable[str], principal: str, servers: str) -> list[str]:
    """Return a command of Kafka for each topic, which grants what Sexton needs.

    ``principal``: Sexton's, such as ``User:sexton``. ``servers``: bootstrap servers; empty: they are not known here.
    """
    operations = [word for operation in ACL_OPERATIONS for word in ("--operation", operation)]
    command = ["kafka-acls", "--bootstrap-server", servers or "HOST:9092", "--add", "--allow-principal", principal]
    return [shlex.join([*command, *operations, "--topic", topic]) for topic in topics]


class NodeSilent(SextonError):
    """A node takes no request to flush."""

    passes = True


class Step(Enum):
    """What a verdict is for. It decides whether the floor may rise, and whether the topic counts as checked."""

    EXPLAIN = auto()
    """The log's state is stored, nothing else."""
    REVIEW = auto()
    """A topic without work counts as checked; one with work stays due until its purge begins."""
    PREPARE = auto()
    """A purge begins: the topic counts as checked."""
    RAISE = auto()
    """The floor rises as far as it may, and the topic counts as checked."""


class UnknownTopic(NotFound):
    """No owner or operator has named a topic of that name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"unknown topic {topic}; see: sexton wal list")


class TopicOfAnotherInstance(SextonError):
    """Another instance has mapped or enabled the topic. The message does not name it: a caller need not know it."""

    def __init__(self, topic: str, instance: str) -> None:
        super().__init__(
            f"topic {topic} belongs to another instance than {instance}, so nothing was changed; see: sexton wal list. "
            f"If that is wrong, an operator gives it to {instance}: sexton wal assign {topic} {instance} --reason …"
        )


class UnknownRegion(NotFound):
    """The topic's map does not name that region."""

    def __init__(self, topic: str, region: str) -> None:
        super().__init__(f"region {region} is not mapped to topic {topic}; map it before its first append")


class OldMap(Conflict):
    """A newer map of the topic is known."""


class OldEpoch(Conflict):
    """A newer leader of the region is known, or the manifest names less than was reported in this epoch."""


class EpochTooHigh(Conflict):
    """An epoch is above the ceiling, or an opening raises it too far."""


class RegionOfAnotherNode(SextonError):
    """A node reports, opens or reads a region that another node leads."""


def of_another_node(region: Region, node: str) -> RegionOfAnotherNode:
    """Return the refusal of what a node sent about a region that is not its own."""
    return RegionOfAnotherNode(
        f"region {region.region} of topic {region.topic} is node {region.leader}'s, not {node}'s: nothing of it was "
        f"changed; if {node} leads it now, the owner's map must name it: PUT /v1/topics/{region.topic}/regions"
    )


class ReplayRefused(Conflict):
    """Entries that the region needs are deleted, or its needs are unknown; it must not open as if none were missing."""


class TooManyReplays(TooMany):
    """A node has too many replays of one region: each retains entries until it is released or has expired."""


class TooManyRegions(TooMany):
    """A map adds regions to a topic or an instance that has as many as possible; nothing of it was stored."""


class PinEnded(Ended):
    """The replay's pin was released or has expired: the entries read so far may have gaps."""
