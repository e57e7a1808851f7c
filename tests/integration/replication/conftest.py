"""An instance with binlogs for each test, in a database that the tests of a file share."""

from collections.abc import Iterator

import pytest

from sexton.database.engine import Database
from tests.integration.replication.binlog_instance import BinlogInstance, new_instance
from tests.servers.postgres import new_database


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    """A database whose clock only moves forward."""
    database = Database.open(new_database())
    yield database
    database.close()


@pytest.fixture
def binlogs(db: Database) -> BinlogInstance:
    """One instance with binlogs."""
    return new_instance(db)
