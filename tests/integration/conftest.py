"""A ``Rig`` of a clean database for contract tests, and a store that can be made to fail."""

from collections.abc import Iterator

import pytest

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig


@pytest.fixture
def postgres_rig(postgres_url: str) -> Iterator[Rig]:
    """One instance ``shop`` in PostgreSQL."""
    rig = Rig(postgres_url).instance()
    yield rig
    rig.db.close()


@pytest.fixture
def rig(clean_url: str) -> Iterator[Rig]:
    """One instance ``shop``, on SQLite and on PostgreSQL in turn."""
    rig = Rig(clean_url).instance()
    yield rig
    rig.db.close()


@pytest.fixture
def proxy(s3_server: RunningS3) -> Iterator[FaultProxy]:
    """A proxy before the S3 server, which delays, refuses and answers as it is told."""
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as running:
        yield running
