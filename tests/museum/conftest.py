"""A local vault of the rig, a bucket that can fail, and an owner with a live view."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.conftest import Faulty, faulty_rig
from tests.integration.check.conftest import owned
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig

__all__ = ["owned"]


@pytest.fixture
def disk(rig: Rig, tmp_path: Path) -> Path:
    """Register the vault ``disk`` and return its directory."""
    return rig.local(tmp_path / "disk")


@pytest.fixture
def cold(s3_server: RunningS3, bucket: str) -> Iterator[Faulty]:
    """One enabled instance ``shop`` with the vault ``cold``, a bucket behind the fault proxy."""
    # One page at a time: the clock of the vault proofs advances 2.6 s whenever a thread reads it.
    with faulty_rig(s3_server, bucket, threads=1) as faulty:
        yield faulty
