"""A clean database, the vault of a rig, Debian's PostgreSQL, and a store that can be made to fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.database import schema
from sexton.database.engine import Database
from sexton.runtime.embedded import postgres
from sexton.runtime.embedded.ports import Ports
from tests.machine import REASON
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import DEPLOYMENT
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig

DEBIAN = Path("/usr/lib/postgresql")


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """A clean database."""
    database = Database.open(database_url)
    yield database
    database.close()


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """The directory of the vault ``disk``."""
    return rig.local(tmp_path / "v")


@pytest.fixture
def debian_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a database with the schema on Debian's PostgreSQL: older than the wheel's, and with ICU."""
    versions = sorted((p.parent.parent for p in DEBIAN.glob("*/bin/postgres")), key=lambda p: int(p.name))
    if not versions:
        pytest.skip(f"{REASON}Debian's postgresql")
    monkeypatch.setattr(postgres, "_programs", lambda _user: versions[0] / "bin")
    server = postgres.PostgresServer(tmp_path, Ports(tmp_path), "secret", {"fsync": "off"})
    server.start()
    url = server.url().replace("postgresql:", "postgresql+psycopg:")
    schema.init(url, DEPLOYMENT)
    yield url
    server.stop()


@pytest.fixture
def proxy(s3_server: RunningS3) -> Iterator[FaultProxy]:
    """A proxy before the S3 server, which delays, refuses and answers as it is told."""
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as running:
        yield running
