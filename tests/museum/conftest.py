"""A local vault of the rig, or a bucket that can fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.conftest import Faulty
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig


@pytest.fixture
def disk(rig: Rig, tmp_path: Path) -> Path:
    """Register the vault ``disk`` and return its directory."""
    return rig.local(tmp_path / "disk")


@pytest.fixture
def cold(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Faulty]:
    """One enabled instance ``shop`` with the vault ``cold``, a bucket behind the fault proxy."""
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        # One page at a time: the clock of the vault proofs advances 2.6 s whenever a thread reads it.
        rig = Rig(database_url, endpoint_url=proxy.url, threads=1).instance()
        yield Faulty(rig, proxy, s3_server, bucket, rig.s3(bucket))
        rig.db.close()
