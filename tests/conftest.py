"""Fixtures every tier shares: real servers, started when first asked for; no developer's settings reach a test."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.database import schema
from tests.servers import kafka as kafka_server
from tests.servers import postgres as postgres_server
from tests.servers import s3 as s3_servers
from tests.servers import temporal as temporal_servers
from tests.statements import left
from tests.support.rig import DEPLOYMENT


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start, even in a run that a shell started in the background.

    Such a shell ignores SIGINT for the run, and every child would inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make soak` what only says to PostgreSQL what others say to it too (``tests/left_to_soak``)."""
    others = left()
    for item in items:
        if item.nodeid in others:
            item.add_marker("soak")
            item.add_marker("left")


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No SEXTON_ variable and no ./.sexton of the developer reaches a test."""
    for name in [name for name in os.environ if name.startswith("SEXTON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_servers.RunningS3]:
    """A real S3 server: `.endpoint_url`, `.access_key`, `.secret_key`, `.client()`; its keys are in os.environ."""
    running = s3_servers.start(tmp_path_factory.mktemp("s3"))
    yield running
    running.server.child.kill()  # its files go with it; a proper end takes it 10 s


@pytest.fixture
def bucket(s3_server: s3_servers.RunningS3) -> str:
    """The name of a fresh bucket."""
    return s3_server.create_bucket()


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Cluster]:
    """A real PostgreSQL cluster: `.url(dbname)`, `.create_database()`."""
    try:
        cluster = postgres_server.Cluster(fsync=False)  # no test pulls the plug
    except postgres_server.Unavailable as e:
        pytest.skip(str(e))
    yield cluster
    cluster.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh empty database, SQLite and PostgreSQL in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sexton.db'}"
    cluster: postgres_server.Cluster = request.getfixturevalue("postgres")
    return cluster.create_database()


@pytest.fixture(scope="session")
def kept_url(postgres: postgres_server.Cluster) -> str:
    """One database with the schema, for all tests that begin with an empty one: making it costs a second."""
    url = postgres.create_database()
    schema.init(url, DEPLOYMENT)
    return url


@pytest.fixture
def postgres_url(kept_url: str) -> str:
    """The URL of a PostgreSQL database with the schema and without a row."""
    postgres_server.empty(kept_url, DEPLOYMENT)
    return kept_url


@pytest.fixture(params=["sqlite", "postgresql"])
def clean_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a row for ``Rig``, on SQLite and on PostgreSQL in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sexton.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Where Apache Kafka is. Skips where Maven cannot resolve it, which is tried now."""
    try:
        return kafka_server.jars()
    except kafka_server.NoKafka as e:
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[temporal_servers.DevServer]:
    """A Temporal dev server: `.address`, and `await .connect()` for a client."""
    # A loop of its own: the fixture outlives the loops of the tests.
    with asyncio.Runner() as runner:
        environment = runner.run(temporal_servers.start_local())
        yield temporal_servers.DevServer(environment)
        runner.run(environment.shutdown())
