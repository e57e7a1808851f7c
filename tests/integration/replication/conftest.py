"""One instance with binlogs on each database."""

import pytest

from sexton.database.engine import Database
from tests.integration.replication.binlog_instance import BinlogInstance


@pytest.fixture
def binlogs(db: Database) -> BinlogInstance:
    """One instance with binlogs."""
    return BinlogInstance(db)
