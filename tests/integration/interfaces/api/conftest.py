"""A served rig: one instance ``shop`` with garbage in vault ``disk``."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from sexton.client import Sexton
from tests.integration.protection.registrations import garbage
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig

Ask = Callable[..., httpx.Response]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(new_database()).instance()
    yield rig
    rig.db.close()


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    return garbage(rig, tmp_path)


@pytest.fixture
def api(rig: Rig, root: Path) -> Iterator[Api]:
    with Api(rig) as served:
        yield served


@pytest.fixture
def ask(api: Api) -> Iterator[Ask]:
    """Send a request with a token of a scope, by default one that may do everything."""
    with httpx.Client(base_url=api.url, timeout=30) as http:

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
            if chunks:
                headers["Content-Type"] = "application/json"
                return http.request(method, path, content=iter(chunks), headers=headers, **more)
            return http.request(method, path, json=body, headers=headers, **more)

        yield asked


@pytest.fixture
def client(api: Api) -> Iterator[Sexton]:
    with Sexton(api.url, api.token("sync:copy@shop"), patience_seconds=5) as client:
        yield client
