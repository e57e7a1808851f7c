"""The tests of this folder that run side by side."""

import os
from collections.abc import Iterator

import pytest

from tests.fault.live.concurrent_tests import ConcurrentTests
from tests.servers.s3 import RunningS3
from tests.servers.temporal import DevServer


@pytest.fixture(scope="session")
def concurrent_tests(
    request: pytest.FixtureRequest,
    temporal_server: DevServer,
    s3_server: RunningS3,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConcurrentTests]:
    home = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch:
        # These tests outlive the isolation of the test that started them.
        for name in [name for name in os.environ if name.startswith("SEXTON_")]:
            patch.delenv(name)
        patch.setenv("SEXTON_HOME", str(home))
        yield ConcurrentTests(request.session.items, temporal_server.address, s3_server, home)
