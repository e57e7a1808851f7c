"""Buckets behind a fault proxy, and directories, for the tests of vaults."""

from pathlib import Path

import pytest

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.places import Bucket, Directory, Place


@pytest.fixture
def place(proxy: FaultProxy, s3_server: RunningS3, bucket: str) -> Bucket:
    """A bucket whose vaults go through the proxy, and whose puts do not."""
    return Bucket(s3_server.client(), proxy.url, bucket)


@pytest.fixture(params=["local", "s3"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A fresh bucket or directory."""
    if request.param == "local":
        (tmp_path / "root").mkdir()
        return Directory(tmp_path / "root")
    server: RunningS3 = request.getfixturevalue("s3_server")
    return Bucket(server.client(), server.endpoint_url, request.getfixturevalue("bucket"))
