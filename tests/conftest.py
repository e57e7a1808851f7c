"""Fixtures of every tier: real servers, started on first use; no developer's settings reach a test."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from httpx._transports import default as httpx_transport
from xdist.scheduler import LoadScopeScheduling

from sexton.recycle.pipeline import settle
from tests import surroundings
from tests.servers import postgres as postgres_server
from tests.servers import s3 as s3_servers
from tests.servers import temporal as temporal_servers
from tests.support import downloads
from tests.support.rig import Rig

REQUEST_SECONDS = 600.0
TOGETHER = ("tests/fault/live", "tests/integration/runtime/spark", "tests/integration/wal")
"""Folders whose tests one process runs: the first side by side, the others because they share Spark, or Kafka."""
LONGEST_FIRST = ("fault/live", "integration/runtime/spark", "e2e", "fault", "browser", "workflows", "museum")


def pytest_configure() -> None:
    """Let nothing of the machine reach a test, let Ctrl-C reach the programs of tests, and let no library measure time.

    A shell that starts a run in the background ignores SIGINT for it, and every child would inherit that. Neither
    Hypothesis nor a request without a timeout of its own measures time, because the machine may be busy. The public
    authorities, which httpx reads for each client, are read once: 24 ms.
    """
    surroundings.clean()
    gc.disable()
    for phase in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, phase, REQUEST_SECONDS)
    httpx_transport.create_ssl_context = cache(httpx_transport.create_ssl_context)
    hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("busy")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class FileScheduling(LoadScopeScheduling):
    """Gives the tests of a file to one process, because they share servers."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling:
    """Return the scheduler of a run in several processes."""
    return FileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the folders that take longest."""
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}

    def begin(item: pytest.Item) -> int:
        folders = item.path.relative_to(config.rootpath / "tests").parents
        return min(order.get(folder.as_posix(), len(order)) for folder in folders)

    items.sort(key=begin)


def pytest_collection_finish() -> None:
    """Collect garbage again, but never among what all tests need: it is large, and stays."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _reachable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let PostgreSQL's own user enter the directories of root's tests."""
    if os.geteuid() == 0:
        for directory in (base := tmp_path_factory.getbasetemp(), base.parent, base.parent.parent):
            if directory.name.startswith(("pytest-", "popen-")):
                directory.chmod(0o711)


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep ./.sexton away from tests, and let PostgreSQL's own user enter their directories."""
    if os.geteuid() == 0:
        tmp_path.chmod(0o711)
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SEXTON_METRICS__LISTEN", "")  # the default is one port for all workers of a machine


@pytest.fixture(autouse=True)
def _logging_ends() -> Iterator[None]:
    """Remove the handler of a program that ran in this process: its stream is the test's, and closed afterwards."""
    yield
    for handler in [handler for handler in logging.root.handlers if type(handler) is logging.StreamHandler]:
        logging.root.removeHandler(handler)


@pytest.fixture(autouse=True)
def _no_request_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let take-overs in this process wait for no request; a test that has one in flight sets the seconds itself."""
    monkeypatch.setattr(settle, "IN_FLIGHT_SECONDS", 0.0)


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
def postgres() -> postgres_server.Cluster:
    """Return a real PostgreSQL cluster: `.url(dbname)`, `.create_database()`."""
    return postgres_server.shared()


@pytest.fixture(autouse=True)
def _databases_dropped() -> Iterator[None]:
    """Drop the databases that a test created; those of fixtures with a wider scope were created before it."""
    kept = postgres_server.count_created()
    yield
    postgres_server.drop_created(kept)


@pytest.fixture
def database_url() -> str:
    """Return the URL of a database with the schema and without rows."""
    return postgres_server.new_database()


@pytest.fixture
def rig(database_url: str) -> Iterator[Rig]:
    """One enabled instance ``shop``."""
    rig = Rig(database_url).instance()
    yield rig
    rig.db.close()


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Return the folder of Apache Kafka's jars."""
    return downloads.jars(downloads.KAFKA)


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[temporal_servers.DevServer]:
    """A Temporal dev server: `.address`, and `await .connect()` for a client."""
    # The fixture has an event loop of its own, because it outlives those of the tests.
    with asyncio.Runner() as runner:
        environment = runner.run(temporal_servers.start_local())
        yield temporal_servers.DevServer(environment)
        runner.run(environment.shutdown())
