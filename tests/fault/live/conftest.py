"""The tests of this folder that run side by side."""

import os
from collections.abc import ItemsView, Iterator

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
        # Each test's start and end writes the environment, which these tests read in their threads at the same time.
        patch.setattr(type(os.environ), "items", _copied_items)
        yield ConcurrentTests(request.session.items, temporal_server.address, s3_server, home)


def _copied_items(environ: "os._Environ[str]") -> ItemsView[str, str]:
    """Read the variables at once: reading them one by one fails when another thread removes one meanwhile."""
    variables = environ._data.copy()  # type: ignore[attr-defined]
    return {environ.decodekey(key): environ.decodevalue(value) for key, value in variables.items()}.items()
