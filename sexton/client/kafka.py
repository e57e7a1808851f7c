"""What a region reads of its topic in Kafka. A reader here never begins anywhere but where it was told."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sexton.client.errors import ReplayLost
from sexton.client.replaying import TopicEntry
from sexton.wal.kafka import PARTITION, QUIET, KafkaLog, made
from sexton.wal.model import Facts
from sexton.wal.port import LogFault

SILENCE_SECONDS = 60.0
"""Without an entry for so long, a topic that has not ended is not read any more."""
POLL_SECONDS = 1.0
BATCH = 500
CLOSED: Mapping[str, str | bool] = {
    "group.id": "sexton-replay",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": False,
}
"""What no setting of the caller changes: what is out of range is an error, never another beginning."""


class KafkaSource:
    """Implements ``client.replaying.Source``."""

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        """``settings``: librdkafka's names, ``bootstrap.servers`` among them."""
        self._topic = topic
        self._log = KafkaLog(settings)
        self._consumer = made(Consumer, {**QUIET, "client.id": "sexton-replay", **settings, **CLOSED})

    def facts(self) -> Facts:
        found = self._log.facts([self._topic])[self._topic]
        if isinstance(found, LogFault):
            raise ReplayLost(str(found)) from found
        return found

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        if start >= end:
            return
        self._consumer.assign([TopicPartition(self._topic, PARTITION, start)])
        heard = time.monotonic()
        while True:
            try:
                some = self._consumer.consume(BATCH, POLL_SECONDS)
            except KafkaException as e:
                raise ReplayLost(f"topic {self._topic}: {e.args[0].str()}") from e
            entries = 0
            for message in some:
                if (error := message.error()) is not None:
                    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                        continue
                    raise ReplayLost(f"topic {self._topic}: {error.name()}: {error.str()}")
                at = int(message.offset() or 0)
                if at >= end:
                    return
                entries += 1
                yield TopicEntry(at, message.key(), message.value())
                if at == end - 1:
                    return
            if entries:  # whoever applies them may take its time
                heard = time.monotonic()
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise ReplayLost(f"topic {self._topic}: nothing came for {SILENCE_SECONDS:.0f} s")

    def close(self) -> None:
        self._consumer.close()
