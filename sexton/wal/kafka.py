"""A log that is Apache Kafka's, through librdkafka's admin client.

Errors of one partition are values there and are not retried: whoever purges asks anew what is there, and tries again.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from sexton.kernel.errors import BadInput
from sexton.wal.model import Facts
from sexton.wal.port import LogFault

log = logging.getLogger(__name__)
T = TypeVar("T")
PARTITION = 0
REQUEST_SECONDS, OPERATION_SECONDS = 20.0, 10.0
PASSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # also what a broker says that has not heard of a new topic yet
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet how far the others have followed
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }
)
"""Errors that pass by themselves; a DeleteRecords that ended with one may have taken effect."""
CACHING = {"metadata.max.age.ms": "1000"}
"""Else who led a topic is believed for 15 minutes, and of a leader that died nothing is heard all that time."""
WANTED = {
    "cleanup.policy": ("delete", "compaction and DeleteRecords exclude each other"),
    "unclean.leader.election.enable": ("false", "a follower that lacks acknowledged entries could become leader"),
}
QUIET = {"log_level": "2"}
"""librdkafka tells of each connection that fails, past Python's logging, twenty times a second; faults say it once."""
AWAY = "; do the brokers of [wal.kafka] answer?"
HINTS = {
    "POLICY_VIOLATION": "; is its cleanup.policy compact? set it to delete, or run: sexton wal disable {topic}",
    **dict.fromkeys(("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"), AWAY),
}
WEIGHED, WEIGH_SECONDS = 20, 3.0
"""So many of a topic's newest entries are read for their size, and for so long those of a page of topics."""
WEIGHS = {"enable.auto.commit": "false", "auto.offset.reset": "latest"}
SANE_SEGMENTS = range(1 << 20, 1 << 31)
"""Bytes of a segment: only whole ones, and never the active one, are freed on disk."""


class KafkaLog:
    """Implements ``wal.port.Log``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings``: librdkafka's names, ``bootstrap.servers`` among them. Connects when it is first asked."""
        self._settings: dict[str, str | int | float | bool] = {**QUIET, **CACHING, "client.id": "sexton", **settings}
        self._admin = made(AdminClient, self._settings)

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        ids = self._ids(topics)
        there = {name: its for name, its in ids.items() if not isinstance(its, LogFault)}
        at = {name: TopicPartition(name, PARTITION) for name in there}
        # The start first: a purge or retention between the two only makes it older, never newer than the end.
        starts, ends = self._offsets(at, OffsetSpec.earliest()), self._offsets(at, OffsetSpec.latest())
        again = self._ids(there)
        found: dict[str, Facts | LogFault] = {}
        for name, its in ids.items():
            answers = [its, again.get(name, its), starts.get(name, 0), ends.get(name, 0)]
            fault = next((answer for answer in answers if isinstance(answer, LogFault)), None)
            if fault is None and answers[0] != answers[1]:
                fault = LogFault(name, "UNKNOWN_TOPIC_ID", "it was made anew while it was asked", passes=True)
            if fault is None:
                (id_, partitions), _, start, end = answers
                led = {"start": start.offset, "end": end.offset, "leader": end.leader_epoch}
                found[name] = Facts(id=id_, partitions=partitions, **led)
            else:
                found[name] = fault
        if any(isinstance(its, LogFault) and its.reason == "_TIMED_OUT" for its in found.values()):
            self._look_around()
        return found

    def _look_around(self) -> None:
        """See which brokers there are now: else one that died goes on to be asked, as nothing else looks."""
        with suppress(KafkaException):
            self._admin.list_topics(timeout=REQUEST_SECONDS)

    def _ids(self, topics: Iterable[str]) -> Mapping[str, tuple[str, int] | LogFault]:
        """Return the id and the number of partitions of each topic."""
        names = list(topics)
        if not names:
            return {}
        told: dict[str, tuple[str, int] | LogFault] = {}
        for name, future in self._asked(self._admin.describe_topics, TopicCollection(names), names).items():
            its = _result(name, future)
            told[name] = its if isinstance(its, LogFault) else (str(its.topic_id), len(its.partitions))
        return told

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        for topic, offset in offsets.items():
            if offset <= 0:  # -1 is "the end" to Kafka, and would wipe the topic
                raise ValueError(f"topic {topic}: offset {offset} is not above 0")
        if not offsets:
            return {}
        parts = [TopicPartition(topic, PARTITION, offset) for topic, offset in offsets.items()]
        futures = self._asked(self._admin.delete_records, parts, offsets, operation_timeout=OPERATION_SECONDS)
        told: dict[str, int | LogFault] = {}
        for name, future in futures.items():
            its = _result(name, future)
            told[name] = its if isinstance(its, LogFault) else int(its.low_watermark)
        return told

    def weigh(self, topics: Mapping[str, Facts]) -> Mapping[str, float]:
        # Kafka's admin client here does not tell sizes on disk; a reader that joins no group commits nothing.
        reader = made(Consumer, {**self._settings, "group.id": "sexton-weighs", **WEIGHS})
        found: dict[str, list[int]] = {}
        try:
            reader.assign([TopicPartition(n, PARTITION, max(f.start, f.end - WEIGHED)) for n, f in topics.items()])
            for entry in reader.consume(WEIGHED * len(topics), WEIGH_SECONDS) if topics else ():
                if entry.error() is None:
                    found.setdefault(str(entry.topic()), []).append(len(entry.key() or b"") + len(entry.value() or b""))
        except KafkaException as e:
            log.warning("the sizes of entries are not known: %s", e)
        finally:
            reader.close()
        return {name: sum(sizes) / len(sizes) for name, sizes in found.items()}

    def check(self, topic: str) -> Sequence[str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        its = _result(topic, self._admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource])
        there = _result(topic, self._asked(self._admin.describe_topics, TopicCollection([topic]), [topic])[topic])
        for answer in (its, there):
            if isinstance(answer, LogFault):
                return [str(answer)]
        said = [f"{k} is {its[k].value}, not {v}: {why}" for k, (v, why) in WANTED.items() if its[k].value != v]
        if len(there.partitions) != 1:
            said.append(f"it has {len(there.partitions)} partitions; an entry id means something in one alone")
        copies = len(there.partitions[0].replicas)
        if copies > 1 and int(its["min.insync.replicas"].value) < 2:
            said.append(f"min.insync.replicas is 1 of {copies}: what one broker acknowledged with acks=all may be lost")
        kept = [f"{k} is {its[k].value}" for k in ("retention.ms", "retention.bytes") if its[k].value != "-1"]
        if kept:
            said.append(
                f"{' and '.join(kept)}: Kafka deletes what a region may still need; set -1, or purge it --logical"
            )
        size = int(its["segment.bytes"].value)
        if size not in SANE_SEGMENTS:
            said.append(f"segment.bytes is {size:,}: only whole segments are freed")
        return said

    def _offsets(self, at: Mapping[str, TopicPartition], spec: OffsetSpec) -> Mapping[str, Any]:
        """Return offsets with the epochs of their leaders, or faults."""
        if not at:
            return {}
        futures = self._asked(self._admin.list_offsets, dict.fromkeys(at.values(), spec), at)
        told: dict[str, Any] = {}
        for name, future in futures.items():
            its = _result(name, future)
            # -1001 and no error: its leader was not reached.
            if not isinstance(its, LogFault) and its.offset < 0:
                its = LogFault(name, "_TIMED_OUT", "its leader does not answer", passes=True)
            told[name] = its
        return told

    def _asked(self, call: Any, what: Any, topics: Any, **more: Any) -> dict[str, "Future[Any] | Exception"]:
        """Return a future for each topic; where the call itself fails that is its answer for all of them."""
        try:
            futures = call(what, request_timeout=REQUEST_SECONDS, **more)
        except (KafkaException, ValueError) as e:
            return dict.fromkeys(topics, e)
        return {key if isinstance(key, str) else key.topic: future for key, future in futures.items()}


def _result(topic: str, asked: "Future[Any] | Exception") -> Any:
    """Return what a future brings, or the fault that it ended with."""
    try:
        if isinstance(asked, Exception):
            raise asked
        return asked.result()
    except KafkaException as e:
        error = e.args[0]
        hint = HINTS.get(error.name(), "").format(topic=topic)
        return LogFault(topic, error.name(), error.str() + hint, passes=error.code() in PASSING or error.retriable())
    except ValueError as e:  # a name that is no topic's
        return LogFault(topic, "INVALID_TOPIC", str(e), passes=False)


def made(kind: Callable[[dict[str, Any]], T], settings: Mapping[str, Any]) -> T:
    """Return a client of librdkafka; raises ``BadInput`` where it refuses a setting, without what was set."""
    try:
        return kind(dict(settings))
    except KafkaException as e:
        told = re.sub(r'value "[^"]*"', "value", e.args[0].str())
        raise BadInput(f"[wal.kafka] is refused: {told}") from None
