"""A purge survives a change of the topic's leader at any moment, and deletes no needed entry."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.wal import kafka
from sexton.wal.kafka import KafkaLog
from sexton.wal.model import BlockReason, Facts, Purged
from sexton.wal.policy import SLACK
from sexton.wal.port import LogFault
from sexton.wal.purger import Purger
from tests.integration.wal.cluster import Cluster
from tests.integration.wal.logs import KafkaPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.servers import kafka as kafka_server
from tests.support.crashes import OF_WAL
from tests.support.eventually import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.slow

# A producer must not wait a minute for a frozen leader, nor write an entry twice when it repeats a request.
PRODUCING = {"socket.timeout.ms": "3000", "enable.idempotence": "true"}
ENTRIES, FLOOR = 250, 100


@pytest.fixture(scope="module")
def cluster(kafka_jars: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with kafka_server.kafka(tmp_path_factory.mktemp("three"), nodes=3) as running:
        yield Cluster(running)


class Watched(KafkaLog):
    """Records its faults."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.faults: list[LogFault] = []
        self.deleting = threading.Event()
        """Set when it asks Kafka to delete entries."""

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        return self._noted(super().facts(topics))

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, int | LogFault]:
        self.deleting.set()
        return self._noted(super().delete_before(offsets))

    def _noted(self, answers: Mapping[str, Any]) -> Mapping[str, Any]:
        self.faults += [answer for answer in answers.values() if isinstance(answer, LogFault)]
        return answers


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only briefly for a broker that was asked about the leader that died."""
    monkeypatch.setattr(kafka, "REQUEST_SECONDS", 4.0)
    monkeypatch.setattr(kafka, "OPERATION_SECONDS", 3.0)


@pytest.fixture
def log(cluster: Cluster) -> Watched:
    return Watched({"bootstrap.servers": cluster.address})


@pytest.fixture
def topics(db: Database, cluster: Cluster, log: Watched) -> TopicStores:
    place = KafkaPlace(cluster.address, copies=3, **PRODUCING)
    place.log = log
    return TopicStores(db, place)


@pytest.fixture
def topic(topics: TopicStores) -> str:
    """A topic of 250 entries; the last 150 are needed, and nothing is purged yet."""
    name = topics.topic(ENTRIES)
    topics.map(name, "r1")
    topics.purge(name)
    topics.flushed(name, "r1", FLOOR - 1)
    return name


@pytest.fixture(autouse=True)
def _mended(cluster: Cluster, topic: str) -> Iterator[None]:
    """Bring every node back before the next test."""
    yield
    cluster.mend(topic)


def purged(topics: TopicStores, topic: str, first: Purged | None = None) -> Purged:
    """Repeat a purge until it is done; on the way the floor only rises, and the topic never begins above it."""
    deadline, floor, done = time.monotonic() + PATIENCE_SECONDS, 0, first or topics.purge(topic)
    while True:
        now = done.floor or 0
        assert floor <= now <= FLOOR
        assert (done.log_start or 0) <= max(0, now - SLACK)
        assert not done.verdict.quarantine
        if done.log_start == FLOOR - SLACK:
            return done
        # Otherwise a node did not answer, or the new leader does not know yet what the old one deleted.
        assert {b.why for b in done.verdict.blocked} <= {BlockReason.FAULT}, done
        assert not done.fault or done.passes, done
        assert time.monotonic() < deadline, done
        floor, done = now, topics.purge(topic)


def all_is_there(topics: TopicStores, topic: str, ids: Sequence[int]) -> None:
    """Read every acknowledged entry with a plain consumer; a new leader may serve the last ones a moment later."""
    read_ids: list[int] = []

    def read_to_the_end() -> bool:
        read_ids[:] = topics.place.read(topic, ids[0])
        return len(read_ids) >= len(ids)

    eventually(f"{topic} is readable to its end", read_to_the_end)
    assert read_ids == list(ids)


def is_purged_safely(topics: TopicStores, log: Watched, topic: str, done: Purged) -> None:
    """See that a purge ended at the floor, that all other entries can be read, and that no fault lasts."""
    assert topics.place.append(topic, 10) == ENTRIES
    assert (done.floor, purged(topics, topic).log_start) == (100, 99)
    all_is_there(topics, topic, range(99, ENTRIES + 10))
    assert [f for f in log.faults if not f.passes] == []


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=() if p == "wal.floor" else pytest.mark.soak) for p in sorted(OF_WAL)]
)
def test_leader_that_dies_between_two_steps_changes_nothing(
    cluster: Cluster, topics: TopicStores, log: Watched, topic: str, point: str
) -> None:
    dying = cluster.leader(topic)

    def kill(reached: str) -> None:
        if reached == point and dying.child.exit_code() is None:
            dying.kill()

    with installed(kill):
        done = purged(topics, topic)

    cluster.has_left(topic, dying)
    is_purged_safely(topics, log, topic, done)


def test_leader_that_died_begins_at_the_floor_when_it_returns(
    cluster: Cluster, topics: TopicStores, log: Watched, topic: str
) -> None:
    first = cluster.leader(topic)
    first.kill()

    is_purged_safely(topics, log, topic, purged(topics, topic))

    cluster.mend(topic)
    assert cluster.elect_first(topic) is first is cluster.leader(topic)
    all_is_there(topics, topic, range(99, ENTRIES + 10))
    assert topics.start(topic) == 99
    assert [f for f in log.faults if not f.passes] == []


def test_leader_that_dies_before_a_follower_deletes_is_safe(
    cluster: Cluster, topics: TopicStores, log: Watched, topic: str
) -> None:
    leader, slow = cluster.leader(topic), cluster.follower(topic)
    slow.freeze()  # no DeleteRecords is answered until it has followed
    with ThreadPoolExecutor(1) as pool:
        log.deleting.clear()
        purging = pool.submit(topics.purge, topic)

        def is_deleting() -> bool:
            nonlocal purging
            if purging.done():  # it asked the frozen broker about the topic, which did not answer
                purging = pool.submit(topics.purge, topic)
            return log.deleting.wait(0.1)

        eventually("a purge asks Kafka to delete", is_deleting)
        assert not purging.done()
        leader.kill()
        slow.thaw()
        first = purging.result()

    is_purged_safely(topics, log, topic, purged(topics, topic, first))


def test_disconnected_leader_quarantines_no_topic(cluster: Cluster, topics: TopicStores, topic: str) -> None:
    others = [KafkaLog({"bootstrap.servers": cluster.address}) for _ in range(4)]
    for log in others:
        log.facts([topic])
    old = cluster.leader(topic)
    old.freeze()
    cluster.has_left(topic, old)
    topics.place.append(topic, 100)
    topics.purger = Purger(KafkaLog({"bootstrap.servers": cluster.awake}), topics.floors)
    purged(topics, topic)

    with ThreadPoolExecutor(len(others)) as pool:
        purging = [pool.submit(Purger(log, topics.floors).purge, [topic]) for log in others]
        time.sleep(1.0)
        old.thaw()
        done = [p.result() for p in purging]

    assert [d[topic].verdict.quarantine for d in done] == [""] * len(others)
    assert topics.store.topic(topic).floor == 100
    all_is_there(topics, topic, range(99, ENTRIES + 100))
