"""A rig over SQLite and over PostgreSQL, and the same with a bucket that can be made to fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.conftest import Faulty
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig


@pytest.fixture
def rig(clean_url: str) -> Iterator[Rig]:
    """One enabled instance ``shop``."""
    made = Rig(clean_url).instance()
    yield made
    made.db.close()


@pytest.fixture
def disk(rig: Rig, tmp_path: Path) -> Path:
    """The directory of its vault ``disk``."""
    return rig.local(tmp_path / "disk")


@pytest.fixture
def cold(clean_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Faulty]:
    """One enabled instance ``shop`` with the vault ``cold``, a bucket behind the fault proxy."""
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        # One page at a time: the clock of the proofs passes 2.6 s at every look of any thread.
        rig = Rig(clean_url, endpoint_url=proxy.url, threads=1).instance()
        yield Faulty(rig, proxy, s3_server, bucket, rig.s3(bucket))
        rig.db.close()
