"""One served rig for all tests of a file that imports these fixtures: each test changes only what it names itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.protection.registrations import garbage
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig(new_database()).instance()
    yield rig
    rig.db.close()


@pytest.fixture(scope="module")
def root(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return garbage(rig, tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def api(rig: Rig, root: Path) -> Iterator[Api]:
    with Api(rig) as served:
        yield served


@contextmanager
def served_shop(directory: Path) -> Iterator[tuple[Rig, Path, Api]]:
    """Serve a rig of its own, whose garbage a test deletes: the rig, its vault's directory and its server."""
    rig = Rig(new_database()).instance()
    root = garbage(rig, directory)
    with Api(rig) as api:
        yield rig, root, api
    rig.db.close()
