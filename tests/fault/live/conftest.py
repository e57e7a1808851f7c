"""Acts: the tests of this folder that run side by side."""

import os
from collections.abc import Iterator

import pytest

from tests.fault.live.stage import Acts
from tests.servers.s3 import RunningS3
from tests.servers.temporal import DevServer


@pytest.fixture(scope="session")
def acts(
    request: pytest.FixtureRequest,
    temporal_server: DevServer,
    s3_server: RunningS3,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Acts]:
    home = tmp_path_factory.mktemp("acts")
    with pytest.MonkeyPatch.context() as patch:
        # Acts outlive the isolation of the test that began them.
        for name in [name for name in os.environ if name.startswith("SEXTON_")]:
            patch.delenv(name)
        patch.setenv("SEXTON_HOME", str(home))
        yield Acts(request.session.items, temporal_server.address, s3_server, home)
