"""Read and purge topics of Apache Kafka, through librdkafka's admin client.

An error of one partition is returned as a value and not retried: the next purge reads the topic again, and tries again.
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
TRANSIENT_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # also the answer of a broker that does not know a new topic yet
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet how far its followers are
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # the client knows an election that the broker does not know yet
        KafkaError.FENCED_LEADER_EPOCH,  # the broker knows an election that the client does not know yet
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }
)
"""Errors that end without intervention; a DeleteRecords that failed with one may have taken effect."""
METADATA_SETTINGS = {"metadata.max.age.ms": "1000"}
"""By default the client remembers a topic's leader for 15 minutes, and does not notice in that time that it died."""
REQUIRED_CONFIG = {
    "cleanup.policy": ("delete", "compaction and DeleteRecords exclude each other"),
    "unclean.leader.election.enable": ("false", "a follower that lacks acknowledged entries could become leader"),
}
"""Settings of a topic: the value that each must have, and why."""
LOG_SETTINGS = {"log_level": "2"}
"""librdkafka logs each failed connection to stderr, twenty times a second; a fault reports it once."""
BROKER_HINT = "; do the brokers of [wal.kafka] answer?"
HINTS = {
    "POLICY_VIOLATION": "; is its cleanup.policy compact? set it to delete, or run: sexton wal disable {topic}",
    **dict.fromkeys(("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"), BROKER_HINT),
}
SAMPLE_ENTRIES, SAMPLE_SECONDS = 20, 3.0
"""The newest entries of a topic that are read for their sizes, and the time limit for a page of topics."""
SAMPLE_READER_SETTINGS = {"enable.auto.commit": "false", "auto.offset.reset": "latest"}
SANE_SEGMENT_BYTES = range(1 << 20, 1 << 31)
"""Only whole segments are freed on disk, and never the active one."""


class KafkaLog:
    """Implements ``wal.port.TopicLog``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings``: librdkafka's names, ``bootstrap.servers`` among them. The first request connects."""
        self._settings: dict[str, str | int | float | bool] = {
            **LOG_SETTINGS,
            **METADATA_SETTINGS,
            "client.id": "sexton",
            **settings,
        }
        self._admin = create_client(AdminClient, self._settings)

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        identities = self._identities(topics)
        existing = {name: identity for name, identity in identities.items() if not isinstance(identity, LogFault)}
        partitions = {name: TopicPartition(name, PARTITION) for name in existing}
        # Read the start first: a deletion between the two requests makes the start too old, never newer than the end.
        starts = self._offsets(partitions, OffsetSpec.earliest())
        ends = self._offsets(partitions, OffsetSpec.latest())
        identities_after = self._identities(existing)
        answers: dict[str, Facts | LogFault] = {}
        for name, identity in identities.items():
            identity_after = identities_after.get(name, identity)
            answers[name] = _facts(name, (identity, identity_after), starts.get(name, 0), ends.get(name, 0))
        if any(isinstance(answer, LogFault) and answer.reason == "_TIMED_OUT" for answer in answers.values()):
            with suppress(KafkaException):  # read which brokers exist: requests would still go to one that died
                self._admin.list_topics(timeout=REQUEST_SECONDS)
        return answers

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        for topic, offset in offsets.items():
            if offset <= 0:  # Kafka reads -1 as the end, and would delete every record
                raise ValueError(f"topic {topic}: offset {offset} is not above 0")
        if not offsets:
            return {}
        partitions = [TopicPartition(topic, PARTITION, offset) for topic, offset in offsets.items()]
        futures = self._request(self._admin.delete_records, partitions, offsets, operation_timeout=OPERATION_SECONDS)
        answers: dict[str, int | LogFault] = {}
        for name, future in futures.items():
            result = _result(name, future)
            answers[name] = result if isinstance(result, LogFault) else int(result.low_watermark)
        return answers

    def entry_sizes(self, topics: Mapping[str, Facts]) -> Mapping[str, float]:
        # This admin client cannot read sizes on disk. A consumer that joins no group commits nothing.
        reader = create_client(Consumer, {**self._settings, "group.id": "sexton-weighs", **SAMPLE_READER_SETTINGS})
        sizes: dict[str, list[int]] = {}
        try:
            newest = [(name, max(facts.start, facts.end - SAMPLE_ENTRIES)) for name, facts in topics.items()]
            reader.assign([TopicPartition(name, PARTITION, offset) for name, offset in newest])
            for entry in reader.consume(SAMPLE_ENTRIES * len(topics), SAMPLE_SECONDS) if topics else ():
                if entry.error() is None:
                    size = len(entry.key() or b"") + len(entry.value() or b"")
                    sizes.setdefault(str(entry.topic()), []).append(size)
        except KafkaException as e:
            log.warning("cannot estimate the sizes of entries: %s", e)
        finally:
            reader.close()
        return {name: sum(of_topic) / len(of_topic) for name, of_topic in sizes.items()}

    def check(self, topic: str) -> Sequence[str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        config = _result(topic, self._admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource])
        descriptions = self._request(self._admin.describe_topics, TopicCollection([topic]), [topic])
        description = _result(topic, descriptions[topic])
        for answer in (config, description):
            if isinstance(answer, LogFault):
                return [str(answer)]
        return _problems(description, {name: entry.value for name, entry in config.items()})

    def _identities(self, topics: Iterable[str]) -> Mapping[str, tuple[str, int] | LogFault]:
        """Return the id and the number of partitions of each topic."""
        names = list(topics)
        if not names:
            return {}
        identities: dict[str, tuple[str, int] | LogFault] = {}
        for name, future in self._request(self._admin.describe_topics, TopicCollection(names), names).items():
            result = _result(name, future)
            fault = isinstance(result, LogFault)
            identities[name] = result if fault else (str(result.topic_id), len(result.partitions))
        return identities

    def _offsets(self, partitions: Mapping[str, TopicPartition], spec: OffsetSpec) -> Mapping[str, Any]:
        """Return offsets with the epochs of their leaders, or faults."""
        if not partitions:
            return {}
        futures = self._request(self._admin.list_offsets, dict.fromkeys(partitions.values(), spec), partitions)
        answers: dict[str, Any] = {}
        for name, future in futures.items():
            result = _result(name, future)
            # -1001 without an error: the leader was not reached.
            if not isinstance(result, LogFault) and result.offset < 0:
                result = LogFault(name, "_TIMED_OUT", "its leader does not answer", passes=True)
            answers[name] = result
        return answers

    def _request(
        self, call: Any, argument: Any, topics: Iterable[str], **options: Any
    ) -> dict[str, "Future[Any] | Exception"]:
        """Return a future for each topic; if the call itself fails, its error is the answer for all of them."""
        try:
            futures = call(argument, request_timeout=REQUEST_SECONDS, **options)
        except (KafkaException, ValueError) as e:
            return dict.fromkeys(topics, e)
        return {key if isinstance(key, str) else key.topic: future for key, future in futures.items()}


def create_client(kind: Callable[[dict[str, Any]], T], settings: Mapping[str, Any]) -> T:
    """Return a client of librdkafka; raises ``BadInput`` if it refuses a setting, without that setting's value."""
    try:
        return kind(dict(settings))
    except KafkaException as e:
        reason = re.sub(r'value "[^"]*"', "value", e.args[0].str())
        raise BadInput(f"[wal.kafka] is refused by librdkafka: {reason}") from None


def _facts(name: str, identities: tuple[Any, Any], start: Any, end: Any) -> Facts | LogFault:
    """Combine the answers of the requests about a topic, or return the first fault. ``identities``: before, after."""
    identity, identity_after = identities
    for answer in (identity, identity_after, start, end):
        if isinstance(answer, LogFault):
            return answer
    if identity != identity_after:
        detail = "it was deleted and created again during the request"
        return LogFault(name, "UNKNOWN_TOPIC_ID", detail, passes=True)
    topic_id, partitions = identity
    return Facts(id=topic_id, partitions=partitions, start=start.offset, end=end.offset, leader=end.leader_epoch)


def _problems(description: Any, config: Mapping[str, str]) -> list[str]:
    """Return which settings of a topic endanger its entries, or keep deleted ones on disk."""
    problems = [
        f"{name} is {config[name]}, not {required}: {reason}"
        for name, (required, reason) in REQUIRED_CONFIG.items()
        if config[name] != required
    ]
    if len(description.partitions) != 1:
        count = len(description.partitions)
        problems.append(f"it has {count} partitions; entry ids are unique only within one partition")
    replicas = len(description.partitions[0].replicas)
    if replicas > 1 and int(config["min.insync.replicas"]) < 2:
        problems.append(
            f"min.insync.replicas is 1 of {replicas}: an entry that one broker acknowledged with acks=all may be lost"
        )
    retention = [f"{name} is {config[name]}" for name in ("retention.ms", "retention.bytes") if config[name] != "-1"]
    if retention:
        problems.append(
            f"{' and '.join(retention)}: Kafka deletes entries that a region may still need; set -1, or purge it "
            "--logical"
        )
    segment_bytes = int(config["segment.bytes"])
    if segment_bytes not in SANE_SEGMENT_BYTES:
        problems.append(f"segment.bytes is {segment_bytes:,}: only whole segments are freed")
    return problems


def is_transient(error: KafkaError) -> bool:
    """Return whether an error ends without intervention."""
    return error.code() in TRANSIENT_ERRORS or error.retriable()


def _result(topic: str, future: "Future[Any] | Exception") -> Any:
    """Return the result of a future, or the fault with which it ended."""
    try:
        if isinstance(future, Exception):
            raise future
        return future.result()
    except KafkaException as e:
        error = e.args[0]
        hint = HINTS.get(error.name(), "").format(topic=topic)
        return LogFault(topic, error.name(), error.str() + hint, passes=is_transient(error))
    except ValueError as e:  # an invalid topic name
        return LogFault(topic, "INVALID_TOPIC", str(e), passes=False)
