"""Three nodes of Kafka that lead in turn, with one-line operations for tests."""

import time

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, PartitionMetadata

from tests.servers.kafka import Broker, Kafka
from tests.support.eventually import PATIENCE_SECONDS, eventually


class Cluster:
    """The nodes, and which of them leads."""

    def __init__(self, kafka: Kafka) -> None:
        self.address, self.brokers = kafka.address, kafka.brokers

    def leader(self, topic: str) -> Broker:
        """Return the broker that leads a topic's partition, as soon as one does."""
        eventually(f"somebody leads {topic}", lambda: self._partition(topic).leader >= 0)
        return self.brokers[self._partition(topic).leader]

    def follower(self, topic: str) -> Broker:
        """Return one that does not lead."""
        leader = self.leader(topic)
        return next(b for b in self.brokers if b is not leader)

    def has_left(self, topic: str, broker: Broker) -> None:
        """Wait until another one leads."""
        eventually(f"another one leads {topic}", lambda: self._partition(topic).leader not in (-1, broker.number))

    def mend(self, topic: str) -> None:
        """Start those that died, thaw those that are frozen, and wait until all have what the leader has."""
        for broker in self.brokers:
            if broker.child.exit_code() is not None:
                broker.start()
            broker.thaw()
        eventually(f"all follow {topic}", lambda: len(self._partition(topic).isrs) == len(self.brokers))

    def elect_first(self, topic: str) -> Broker:
        """Let the topic's first replica, which led it in the beginning, lead it again; return it."""
        first = self._partition(topic).replicas[0]
        eventually(f"{first} leads {topic}", lambda: self._elected(topic) and self._partition(topic).leader == first)
        return self.brokers[first]

    def _elected(self, topic: str) -> bool:
        admin = self._admin()
        try:
            admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result()
        except KafkaException:  # who is to see to it is frozen, or not chosen yet
            return False
        return True

    def _partition(self, topic: str) -> PartitionMetadata:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._admin().list_topics(topic, timeout=1).topics[topic].partitions[0]
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    @property
    def awake(self) -> str:
        """The addresses of those that answer; a client may go on to ask one that is frozen for a minute."""
        return ",".join(f"127.0.0.1:{b.port}" for b in self.brokers if b.answers)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.awake, "log_level": "2", "socket.timeout.ms": "3000"})
