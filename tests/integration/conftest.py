"""A ``Rig`` of a clean database for contract tests, and a store that can be made to fail."""

from collections.abc import Iterator

import pytest

from sexton.operators.access import passwords
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.rig import Rig

QUICK_HASH = "$argon2id$v=19$m=8,t=1,p=1$0fbi99K3NN3W0aO0/G8DHw$Ybf/HpqD2NmqFdG3yVeUkMgh0IQoix7z6wfep/1fsCM"
"""The hash of a discarded random text, as fast to verify as those of the tests' passwords."""


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords at the lowest cost; tests/unit/operators/access/test_credentials.py checks the real parameters."""
    monkeypatch.setattr(passwords, "TIME_COST", 1)
    monkeypatch.setattr(passwords, "MEMORY_KIB", 8)
    monkeypatch.setattr(passwords, "PARALLELISM", 1)
    monkeypatch.setattr(passwords, "UNKNOWN_USER_HASH", QUICK_HASH)


@pytest.fixture
def rig(database_url: str) -> Iterator[Rig]:
    """One instance ``shop``."""
    rig = Rig(database_url).instance()
    yield rig
    rig.db.close()


@pytest.fixture
def proxy(s3_server: RunningS3) -> Iterator[FaultProxy]:
    """A proxy before the S3 server, which delays, refuses and answers as it is told."""
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as running:
        yield running
