"""Read a region's topic from Kafka. A reader never begins at another offset than the requested one."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sexton.client.api_call import ReplayLost
from sexton.client.replaying import TopicEntry
from sexton.wal.kafka import LOG_SETTINGS, PARTITION, KafkaLog, create_client
from sexton.wal.model import Facts
from sexton.wal.port import LogFault

SILENCE_SECONDS = 60.0
"""The longest time without an entry, before the end is reached, after which the replay is lost."""
POLL_SECONDS = 1.0
POLL_MESSAGES = 500
FIXED_SETTINGS: Mapping[str, str | bool] = {
    "group.id": "sexton-replay",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": False,
}
"""The caller cannot change these: an offset out of range is an error, and never moves the reader elsewhere."""


class KafkaSource:
    """Implements ``TopicSource``."""

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        """Create the consumer. ``settings``: by librdkafka's names, with ``bootstrap.servers``."""
        self._topic = topic
        self._log = KafkaLog(settings)
        self._consumer = create_client(
            Consumer, {**LOG_SETTINGS, "client.id": "sexton-replay", **settings, **FIXED_SETTINGS}
        )

    def facts(self) -> Facts:
        facts = self._log.facts([self._topic])[self._topic]
        if isinstance(facts, LogFault):
            raise ReplayLost(str(facts)) from facts
        return facts

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        if start >= end:
            return
        self._consumer.assign([TopicPartition(self._topic, PARTITION, start)])
        last_progress = time.monotonic()
        while True:
            try:
                messages = self._consumer.consume(POLL_MESSAGES, POLL_SECONDS)
            except KafkaException as e:
                raise ReplayLost(f"topic {self._topic}: {e.args[0].str()}") from e
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                        continue  # the consumer retries by itself
                    raise ReplayLost(f"topic {self._topic}: {error.name()}: {error.str()}")
                entry = TopicEntry(int(message.offset() or 0), message.key(), message.value())
                if entry.id >= end:
                    return
                yield entry
                if entry.id == end - 1:
                    return
                last_progress = time.monotonic()  # the time that the caller needed for the entry is no silence of Kafka
            if time.monotonic() - last_progress > SILENCE_SECONDS:
                raise ReplayLost(f"topic {self._topic}: no entry arrived for {SILENCE_SECONDS:.0f} s")

    def close(self) -> None:
        self._consumer.close()
