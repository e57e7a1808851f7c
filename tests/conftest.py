"""Fixtures of every tier: real servers, started on first use; no developer's settings reach a test."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG

from sexton.database import schema
from sexton.recycle.pipeline import finish
from tests.servers import kafka as kafka_server
from tests.servers import postgres as postgres_server
from tests.servers import s3 as s3_servers
from tests.servers import temporal as temporal_servers
from tests.statements import find_missing, left_to_soak
from tests.support import maven
from tests.support.rig import DEPLOYMENT

REQUEST_SECONDS = 60.0


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start, and let Spark's Java compile less.

    A shell that starts a run in the background ignores SIGINT for it, and every child would inherit that. Java's
    second compiler costs a third of the CPU of short Spark jobs. Neither Hypothesis nor a request without a timeout of
    its own measures time, because the machine may be busy.
    """
    for phase in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, phase, REQUEST_SECONDS)
    hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("busy")
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and the PostgreSQL variants that add no SQL coverage (``tests/left_to_soak``), as soak tests."""
    soak_ids = left_to_soak()
    missing = find_missing(soak_ids, {item.nodeid for item in items})
    if missing and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"tests/left_to_soak lists tests that do not exist: {', '.join(missing)}")
    for item in items:
        if item.get_closest_marker("soak"):  # a long variant of a slow test
            item.own_markers = [mark for mark in item.own_markers if mark.name != "slow"]
        elif item.get_closest_marker("slow"):
            item.add_marker("soak")
        if item.nodeid in soak_ids:
            item.add_marker("soak")
            item.add_marker("left")


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's SEXTON_ variables and ./.sexton away from tests."""
    for name in [name for name in os.environ if name.startswith("SEXTON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SEXTON_METRICS__LISTEN", "")  # the default is one port for all workers of a machine


@pytest.fixture(autouse=True)
def _no_request_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let take-overs in this process wait for no request; a test that has one in flight sets the seconds itself."""
    monkeypatch.setattr(finish, "IN_FLIGHT_SECONDS", 0.0)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_servers.RunningS3]:
    """A real S3 server: `.endpoint_url`, `.access_key`, `.secret_key`, `.client()`; its keys are in os.environ."""
    running = s3_servers.start(tmp_path_factory.mktemp("s3"))
    yield running
    running.server.child.kill()  # its files are temporary; a clean stop takes 10 s


@pytest.fixture
def bucket(s3_server: s3_servers.RunningS3) -> str:
    """Create a bucket and return its name."""
    return s3_server.create_bucket()


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Cluster]:
    """A real PostgreSQL cluster: `.url(dbname)`, `.create_database()`."""
    try:
        cluster = postgres_server.Cluster(fsync=False)  # no test simulates a power cut
    except postgres_server.Unavailable as e:
        pytest.skip(str(e))
    yield cluster
    cluster.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sexton.db'}"
    cluster: postgres_server.Cluster = request.getfixturevalue("postgres")
    return cluster.create_database()


@pytest.fixture(scope="session")
def kept_url(postgres: postgres_server.Cluster) -> str:
    """Return a database with the schema that tests share and empty, because its creation takes a second."""
    url = postgres.create_database()
    schema.init(url, DEPLOYMENT)
    return url


@pytest.fixture
def postgres_url(kept_url: str) -> str:
    """Return the URL of a PostgreSQL database with the schema and without rows."""
    postgres_server.empty(kept_url, DEPLOYMENT)
    return kept_url


@pytest.fixture(params=["sqlite", "postgresql"])
def clean_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without rows for ``Rig``, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sexton.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Return the folder of Apache Kafka's jars; skip if Maven cannot resolve them now."""
    try:
        return maven.jars(kafka_server.POM)
    except maven.UnresolvedJars as e:
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[temporal_servers.DevServer]:
    """A Temporal dev server: `.address`, and `await .connect()` for a client."""
    # The fixture has an event loop of its own, because it outlives those of the tests.
    with asyncio.Runner() as runner:
        environment = runner.run(temporal_servers.start_local())
        yield temporal_servers.DevServer(environment)
        runner.run(environment.shutdown())
