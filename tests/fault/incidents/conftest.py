"""A rig over SQLite and over PostgreSQL, and the same with a bucket that can be made to fail.

PostgreSQL's database is emptied between tests, as making one costs half a second.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, text

from tests.fault.conftest import Faulty
from tests.rig import DEPLOYMENT, Rig
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import Cluster
from tests.servers.s3 import RunningS3


@pytest.fixture(scope="session")
def reused_url(postgres: Cluster) -> str:
    return postgres.create_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database in which nothing is, SQLite and PostgreSQL in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sexton.db'}"
    found: str = request.getfixturevalue("reused_url")
    rig = Rig(found)
    with rig.db.write() as c:
        c.execute(text("DROP SCHEMA IF EXISTS public, sexton_catalog CASCADE; CREATE SCHEMA public"))
        for table in reversed(rig.db.t.all()):
            c.execute(delete(table))
        c.execute(text("INSERT INTO sexton.instance_guard VALUES ('*', 0)"))
        c.execute(insert(rig.db.t.clock).values(one=True, deployment=DEPLOYMENT))
    rig.db.close()
    return found


@pytest.fixture
def rig(url: str) -> Iterator[Rig]:
    """One enabled instance ``shop``."""
    made = Rig(url).instance()
    yield made
    made.db.close()


@pytest.fixture
def disk(rig: Rig, tmp_path: Path) -> Path:
    """The directory of its vault ``disk``."""
    return rig.local(tmp_path / "disk")


@pytest.fixture
def cold(url: str, s3_server: RunningS3, bucket: str) -> Iterator[Faulty]:
    """One enabled instance ``shop`` with the vault ``cold``, a bucket behind the fault proxy."""
    with FaultProxy(s3_server.endpoint_url, s3_server.access_key, s3_server.secret_key) as proxy:
        # One page at a time: the clock of the proofs passes 2.6 s at every look of any thread.
        rig = Rig(url, endpoint_url=proxy.url, threads=1).instance()
        yield Faulty(rig, proxy, s3_server, bucket, rig.s3(bucket))
        rig.db.close()
