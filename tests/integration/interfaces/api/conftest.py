"""A served rig: one instance ``shop`` with garbage in vault ``disk``."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from sexton.client import Sexton
from tests.integration.protection.registrations import garbage
from tests.servers.api import Api
from tests.support.rig import Rig

Ask = Callable[..., httpx.Response]


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    return garbage(rig, tmp_path)


@pytest.fixture
def api(rig: Rig, root: Path) -> Iterator[Api]:
    with Api(rig) as served:
        yield served


@pytest.fixture(scope="session")
def connections() -> Iterator[httpx.Client]:
    """Connections to all servers: a client reads the certificates of all authorities when it is made."""
    with httpx.Client() as http:
        yield http


@pytest.fixture
def ask(api: Api, connections: httpx.Client) -> Ask:
    """Send a request with a token of a scope, by default one that may do everything."""

    def asked(
        method: str,
        path: str,
        body: object = None,
        *,
        scope: str = "admin",
        chunks: Sequence[bytes] = (),
        **more: object,
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {api.token(scope)}"}
        url = f"{api.url}{path}"
        if chunks:
            headers["Content-Type"] = "application/json"
            return connections.request(method, url, content=iter(chunks), headers=headers, **more)
        return connections.request(method, url, json=body, headers=headers, **more)

    connections.cookies.clear()
    return asked


@pytest.fixture
def client(api: Api) -> Iterator[Sexton]:
    with Sexton(api.url, api.token("sync:copy@shop"), patience_seconds=5) as client:
        yield client
