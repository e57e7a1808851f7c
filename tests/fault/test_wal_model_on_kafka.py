"""The histories of ``test_wal_model``, fewer of them, over Apache Kafka."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from sexton.wal.kafka import KafkaLog
from sexton.wal.model import Facts
from sexton.wal.sql.embedded_log import OutOfRange
from tests.fault.test_wal_model import play
from tests.fault.wal_region import read
from tests.integration.wal.logs import KafkaPlace
from tests.servers import kafka as kafka_server
from tests.servers.postgres import new_database
from tests.support.eventually import PATIENCE_SECONDS

STEPS = 100


class Topics(KafkaLog):
    """Kafka, with the other side that histories need."""

    def __init__(self, address: str) -> None:
        self._address, self._place = address, KafkaPlace(address)
        super().__init__(self._place.settings)
        self._producer = Producer({**self._place.settings, "acks": "all", "linger.ms": 0})
        self._made: set[str] = set()

    def create(self, topic: str) -> None:
        """Make it, empty; one of that name is lost with its entries."""
        (self._place.recreate if topic in self._made else self._place.make)(topic)
        self._made.add(topic)

    def append(self, topic: str, payloads: Sequence[bytes]) -> int:
        """Return the id of the first when all have them."""
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: object) -> None:
            assert error is None, error
            offsets.append(message.offset())  # type: ignore[attr-defined]

        for payload in payloads:
            self._producer.produce(topic, payload, partition=0, on_delivery=delivered)
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        return min(offsets)

    def read(self, topic: str, at: int, limit: int) -> Sequence[tuple[int, bytes]]:
        """Read it to its end, as anybody would."""
        facts = self.facts([topic])[topic]
        assert isinstance(facts, Facts), facts
        if not facts.start <= at <= facts.end:
            raise OutOfRange(topic, at, facts.start, facts.end)
        return list(read(self._address, topic, at, facts.end).items())


@pytest.fixture(scope="module")
def log(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with kafka_server.kafka(tmp_path_factory.mktemp("model")) as running:
        yield Topics(running.address)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200 // STEPS))
def test_200_random_steps_on_kafka_lose_nothing(log: Topics, seed: int) -> None:
    play(new_database(), seed, STEPS, log)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_000 + 2_000 // STEPS))
def test_2_000_random_steps_on_kafka_lose_nothing(log: Topics, seed: int) -> None:
    play(new_database(), seed, STEPS, log)
