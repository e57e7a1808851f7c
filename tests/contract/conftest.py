"""A ``Rig`` of a clean database for contract tests; PostgreSQL's is emptied, as making one costs half a second."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, text

from tests.rig import DEPLOYMENT, Rig
from tests.servers.postgres import Cluster


@pytest.fixture(scope="session")
def reused_url(postgres: Cluster) -> str:
    return postgres.create_database()


@pytest.fixture
def postgres_rig(reused_url: str) -> Iterator[Rig]:
    """One instance ``shop`` in PostgreSQL."""
    rig = Rig(reused_url)
    with rig.db.write() as c:
        for table in reversed(rig.db.t.all()):
            c.execute(delete(table))
        c.execute(text("INSERT INTO sexton.instance_guard VALUES ('*', 0)"))
        c.execute(insert(rig.db.t.clock).values(one=True, deployment=DEPLOYMENT))
        c.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    yield rig.instance()
    rig.db.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """One instance ``shop``, on SQLite and on PostgreSQL in turn."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgres_rig")
        return
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}").instance()
    yield rig
    rig.db.close()
