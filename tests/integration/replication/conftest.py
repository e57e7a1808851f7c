"""One instance with binlogs on each database."""

from collections.abc import Iterator

import pytest

from sexton.database.engine import Database
from tests.integration.replication.binlog_instance import BinlogInstance


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """A clean database."""
    database = Database.open(database_url)
    yield database
    database.close()


@pytest.fixture
def binlogs(db: Database) -> BinlogInstance:
    """One instance with binlogs."""
    return BinlogInstance(db)
