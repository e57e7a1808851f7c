"""Logs as writers and readers use them, the same for Kafka and for the embedded one."""

import time
from collections.abc import Sequence
from itertools import count

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sexton.database.engine import Database
from sexton.wal.kafka import KafkaLog
from sexton.wal.model import Facts
from sexton.wal.port import TopicLog
from sexton.wal.sql.embedded_log import EmbeddedLog, OutOfRange
from tests.support.eventually import PATIENCE_SECONDS, eventually

_numbers = count()


class EntryGone(Exception):
    """The entry to read is deleted, or not appended yet."""


class EmbeddedPlace:
    """The embedded log in Sexton's database."""

    def __init__(self, db: Database) -> None:
        self.log = self._log = EmbeddedLog(db)

    def topic(self, *, partitions: int = 1, compacted: bool = False) -> str:
        name = f"wal-{next(_numbers)}"
        self._log.create(name, partitions=partitions, compacted=compacted)
        return name

    def recreate(self, topic: str) -> None:
        self._log.create(topic)

    def append(self, topic: str, number: int) -> int:
        """Append this number of entries, acknowledged by all replicas; return the id of the first."""
        return self._log.append(topic, [b"entry"] * number)

    def read(self, topic: str, at: int) -> Sequence[int]:
        """Return the ids of some entries from one on; raises ``EntryGone`` if it is out of range."""
        try:
            return [id_ for id_, _ in self._log.read(topic, at)]
        except OutOfRange as e:
            raise EntryGone from e


class KafkaPlace:
    """Topics of Apache Kafka."""

    def __init__(self, address: str, copies: int = 1, **producing: str) -> None:
        """``copies``: replicas of each topic; ``producing``: librdkafka's settings of the producer."""
        self.settings, self._copies = {"bootstrap.servers": address}, copies
        self.log: TopicLog = KafkaLog(self.settings)
        self._admin = AdminClient(self.settings)
        self._producer = Producer({**self.settings, "acks": "all", "linger.ms": 0, **producing})

    def topic(self, *, partitions: int = 1, compacted: bool = False) -> str:
        name = f"wal-{next(_numbers)}"
        self._create(name, partitions, {"cleanup.policy": "compact"} if compacted else {"retention.ms": "-1"})
        return name

    def make(self, name: str) -> None:
        self._create(name, 1, {})

    def recreate(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result()
        self._create(topic, 1, {})

    def append(self, topic: str, number: int) -> int:
        first: list[int] = []

        def delivered(error: KafkaError | None, message: object) -> None:
            assert error is None, error
            first.append(message.offset())  # type: ignore[attr-defined]

        for _ in range(number):
            self._producer.produce(topic, b"entry", key=b"key", partition=0, on_delivery=delivered)
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        return min(first)

    def read(self, topic: str, at: int) -> Sequence[int]:
        settings = {**self.settings, "group.id": "nobody", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer({**settings, "enable.partition.eof": True, "fetch.wait.max.ms": 100})
        consumer.assign([TopicPartition(topic, 0, at)])
        ids: list[int] = []
        until = time.monotonic() + PATIENCE_SECONDS
        try:
            while time.monotonic() < until:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if (error := message.error()) is None:
                    ids.append(int(message.offset()))  # type: ignore[arg-type]
                elif error.code() == KafkaError._PARTITION_EOF:
                    return ids
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    raise EntryGone
                else:
                    raise KafkaException(error)
        finally:
            consumer.close()
        raise AssertionError(f"{topic} was not read to its end within {PATIENCE_SECONDS:.0f} s")

    def _create(self, name: str, partitions: int, config: dict[str, str]) -> None:
        def is_created() -> bool:
            try:
                self._admin.create_topics([NewTopic(name, partitions, self._copies, config=config)])[name].result()
            except KafkaException as e:  # the one of that name is still being deleted
                if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        eventually(f"{name} is created", is_created)
        eventually(f"{name} is there", lambda: isinstance(self.log.facts([name])[name], Facts))


LogPlace = EmbeddedPlace | KafkaPlace
"""A log, with what nodes do with it."""
