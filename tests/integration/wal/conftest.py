"""A log of each kind, and the stores over one database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.wal.sql.maps import ResetStore
from tests.integration.wal.logs import EmbeddedPlace, KafkaPlace, LogPlace
from tests.integration.wal.topic_stores import TopicStores
from tests.servers import kafka as kafka_server
from tests.servers.postgres import new_database

EMBEDDED, KAFKA = "embedded", "kafka"
ON_BOTH_LOGS = pytest.mark.parametrize("place", [EMBEDDED, KAFKA], indirect=True)
"""Of the tests of what a log does; all others use the embedded one."""


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_server.Kafka]:
    """Apache Kafka, one node."""
    with kafka_server.kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    """One database for the tests of a file: each has topics of its own, and all share a clock."""
    database = Database.open(new_database())
    yield database
    database.close()


@pytest.fixture
def place(request: pytest.FixtureRequest, db: Database) -> LogPlace:
    """Return the embedded log, or the one that a test asks for."""
    if getattr(request, "param", EMBEDDED) == KAFKA:
        return KafkaPlace(request.getfixturevalue("kafka").address)
    return EmbeddedPlace(db)


@pytest.fixture
def topics(db: Database, place: LogPlace) -> TopicStores:
    """The stores over a database, and a log."""
    return TopicStores(db, place)


@pytest.fixture
def topic(topics: TopicStores) -> str:
    """A topic of 200 entries; region r1 needs those from 50 on, r2 those from 150 on."""
    name = topics.topic(200)
    topics.map(name, "r1", "r2")
    topics.purge(name)
    topics.flushed(name, "r1", 49)
    topics.flushed(name, "r2", 149)
    return name


@pytest.fixture
def resets(topics: TopicStores) -> ResetStore:
    """What an operator resets."""
    return ResetStore(topics.db)
