"""A served rig: one instance ``shop`` with garbage in vault ``disk``."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from config.settings import Settings
from sexton.client import Sexton
from sexton.database.engine import Database
from sexton.interfaces.api.app import create
from tests.integration.protection.registrations import garbage
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import DEPLOYMENT, Rig

Ask = Callable[..., httpx.Response]


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    return garbage(rig, tmp_path)


@pytest.fixture
def api(rig: Rig, root: Path) -> Iterator[Api]:
    with Api(rig) as served:
        yield served


@pytest.fixture(scope="session")
def app() -> FastAPI:
    """Return the application over no database, to look at its routes."""
    settings = Settings(deployment=DEPLOYMENT, database_url="postgresql://sexton@127.0.0.1/sexton")
    return create(settings, Database.open(settings.database_url))


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
        content: bytes | Iterator[bytes] = b"",
        **more: object,
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {api.token(scope)}", "Content-Type": "application/json"}
        sent: dict[str, object] = {"content": content} if content else {"json": body}
        return connections.request(method, f"{api.url}{path}", headers=headers, **sent, **more)

    connections.cookies.clear()
    return asked


@pytest.fixture
def client(api: Api) -> Iterator[Sexton]:
    with Sexton(api.url, api.token("sync:copy@shop"), patience_seconds=PATIENCE_SECONDS) as client:
        yield client
