"""Kafka loses no acknowledged entry in histories of `test_wal_model`, nor when brokers or programs are killed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from sexton.database.engine import Database
from sexton.wal import kafka as kafka_log
from sexton.wal.kafka import KafkaLog
from sexton.wal.model import Facts, Mode, WalSettings
from sexton.wal.policy import MapOrder, RegionMapping
from sexton.wal.sql.embedded_log import OutOfRange
from sexton.wal.sql.maps import MapStore
from sexton.wal.sql.store import WalStore
from tests.fault import wal_purging
from tests.fault.test_wal_model import play
from tests.fault.wal_region import REGION, ids, read
from tests.integration.wal.logs import KafkaPlace
from tests.servers import kafka as kafka_server
from tests.servers.forked import Forked
from tests.servers.postgres import new_database
from tests.support.crashes import OF_WAL
from tests.support.eventually import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.slow

AGAIN = [1, pytest.param(10, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_server.Kafka]:
    """One node, which is killed and started again on what it has written."""
    with kafka_server.kafka(tmp_path_factory.mktemp("killed")) as running:
        yield running


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


STEPS = 100


@pytest.fixture(scope="module")
def log(kafka: kafka_server.Kafka) -> Topics:
    return Topics(kafka.address)


@pytest.mark.parametrize("seed", range(200 // STEPS))
def test_200_random_steps_on_kafka_lose_nothing(log: Topics, seed: int) -> None:
    play(new_database(), seed, STEPS, log)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_000 + 2_000 // STEPS))
def test_2_000_random_steps_on_kafka_lose_nothing(log: Topics, seed: int) -> None:
    play(new_database(), seed, STEPS, log)


class Deployment:
    """One topic, its region's node and who purges it; each lives until it is killed."""

    def __init__(self, home: Path, kafka: kafka_server.Kafka) -> None:
        self.home, self.kafka, self.url = home, kafka, new_database()
        self.db = Database.open(self.url)
        self.store, place = WalStore(self.db), KafkaPlace(kafka.address)
        self.topic = place.topic()
        self.store.enable(self.topic, Mode.DELETE, "shop")
        mappings = (RegionMapping(region=REGION, first=0),)
        MapStore(self.db, WalSettings()).put(
            MapOrder(instance="shop", topic=self.topic, generation=1, regions=mappings)
        )
        self._place, self._lives, self._living = place, 0, set[Forked]()

    def node(self) -> Forked:
        """Let the region's node live (again), and return when it writes."""
        wrote = len(self.acknowledged)
        arguments = [str(self.home), self.kafka.address, self.url, self.topic]
        return self._live("tests.fault.wal_region", arguments, lambda: len(self.acknowledged) > wrote)

    def purging(self, point: str = "") -> Forked:
        """Let somebody purge, until killed."""
        return self._live("tests.fault.wal_purging", [self.kafka.address, self.url, self.topic, point], lambda: True)

    @property
    def acknowledged(self) -> set[int]:
        return ids(self.home / "ledger")

    @property
    def floor(self) -> int:
        return self.store.topic(self.topic).floor or 0

    def start(self) -> int:
        facts = eventually(
            "Kafka answers", lambda: self._place.log.facts([self.topic])[self.topic], lambda f: isinstance(f, Facts)
        )
        assert isinstance(facts, Facts)
        return facts.start

    def rises(self, by: int = 100) -> None:
        """Wait until the floor has risen."""
        above = self.floor + by
        self.until(f"the floor is above {above}", lambda: self.floor > above)

    def until(self, event: str, condition: Callable[[], object]) -> None:
        """Wait for something; no process may end by itself meanwhile."""

        def look() -> object:
            dead = [f"{p.name}: {p.tail(5)}" for p in self._living if p.exit_code() not in (None, -9)]
            assert not dead, dead
            return condition()

        eventually(event, look)

    def check(self) -> None:
        """Look for every acknowledged entry, with the eyes of somebody who knows nothing of Sexton."""
        for process in self._living:  # else the topic begins later whenever it is read
            if "purging" in process.name:
                process.kill()
        acknowledged = self.acknowledged
        read_entries: dict[int, bytes] = {}
        while not read_entries:
            start = self.start()
            assert start <= max(0, self.floor - 1)
            with suppress(KafkaException):  # somebody still purges: the topic begins later now
                read_entries = read(self.kafka.address, self.topic, start, max(acknowledged) + 1)
        assert not acknowledged - read_entries.keys() - ids(self.home / "flushed")
        assert not ids(self.home / "lost")
        assert self.store.topic(self.topic).quarantined == ""

    def stop(self) -> None:
        for process in self._living:
            process.kill()
        self.db.close()

    def _live(self, module: str, arguments: list[str], ready: Callable[[], bool]) -> Forked:
        self._lives += 1
        process = Forked(f"{module}-{self._lives}", module, arguments, self.home, {})
        self._living.add(process)
        process.start(ready)
        return process


@pytest.fixture
def deployment(kafka: kafka_server.Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(kafka_log, "REQUEST_SECONDS", wal_purging.REQUEST_SECONDS)
    started = Deployment(tmp_path, kafka)
    yield started
    started.stop()


@pytest.mark.parametrize("times", AGAIN)
def test_broker_killed_during_purges_loses_nothing(
    deployment: Deployment, kafka: kafka_server.Kafka, times: int
) -> None:
    deployment.node()
    deployment.purging()
    for _ in range(times):
        deployment.rises()
        floor = deployment.floor
        kafka.brokers[0].kill()
        kafka.brokers[0].start()  # its log start may have moved back: the checkpoint of it is written once a minute
        assert deployment.floor >= floor
        deployment.rises()

    deployment.until("Kafka follows the floor", lambda: deployment.start() >= floor - 1)
    deployment.check()


@pytest.mark.parametrize("times", AGAIN)
def test_next_purge_finishes_after_the_purger_is_killed(deployment: Deployment, times: int) -> None:
    deployment.node()
    for point in ("", *sorted(OF_WAL)):
        for _ in range(times):
            dying = deployment.purging(point)
            if not point:
                deployment.rises()
                dying.kill()
            dead = dying.exit_code
            deployment.until(f"it dies at {point}", lambda: dead() is not None)  # noqa: B023
        floor = deployment.floor
        purging = deployment.purging()
        deployment.until("Kafka follows the floor", lambda: deployment.start() >= floor - 1)  # noqa: B023
        deployment.rises()
        purging.kill()
        deployment.check()


@pytest.mark.parametrize("times", [4, pytest.param(40, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_killed_node_finds_all_acknowledged_entries(deployment: Deployment, times: int) -> None:
    for n in range(times):
        deployment.purging()
        node = deployment.node()
        deployment.rises(30 + 7 * n % 20)  # at another place of its life each time
        node.kill()
        deployment.check()
    deployment.node()

    assert len((deployment.home / "opened").read_text().splitlines()) == times + 1
    deployment.check()
