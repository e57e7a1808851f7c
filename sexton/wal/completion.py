"""Decide which purges the log has completed, and how many entries each of them freed. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from sexton.wal.model import Facts, Mode, Topic
from sexton.wal.policy import SLACK


class OpenPurge(NamedTuple):
    """A raised floor up to which the log has not been seen to delete; ``log_start``: the topic's start before it."""

    id: int
    topic: str
    kafka_id: str
    floor: int
    log_start: int


class PurgeCompletion(NamedTuple):
    """A purge that the log has completed: its topic starts at ``log_start`` now; ``freed``: entries."""

    id: int
    topic: str
    log_start: int
    freed: int


def completed_purges(topic: Topic, facts: Facts, open_purges: Sequence[OpenPurge]) -> list[PurgeCompletion]:
    """Return the open purges of a topic that the log has completed, the lowest floor first.

    Entries that are deleted together are counted once, with the highest completed floor. Purges of an earlier topic of
    the same name never complete. In logical mode Kafka deletes by its own retention: a purge is complete when the floor
    is persisted.

    Args:
        topic: as it is stored.
        facts: what the log reports now.
        open_purges: all of the topic, the lowest floor first.
    """
    purges = [purge for purge in open_purges if purge.kafka_id == facts.id]
    reached = facts.start + SLACK if topic.mode is Mode.DELETE else topic.floor or 0
    completed = [purge for purge in purges if purge.floor <= reached]
    if not completed:
        return []
    freed = max(0, facts.start - purges[0].log_start)
    *lower, highest = completed
    completions = [PurgeCompletion(purge.id, topic.name, facts.start, freed=0) for purge in lower]
    return [*completions, PurgeCompletion(highest.id, topic.name, facts.start, freed)]
