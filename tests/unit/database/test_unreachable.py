"""A database that does not answer is reported with what to check."""

import pytest

from sexton.database import schema
from sexton.database.engine import Database


def test_an_unreachable_database_is_named_with_its_setting() -> None:
    db = Database.open("postgresql://nobody@127.0.0.1:1/shop")

    with pytest.raises(schema.SchemaError, match=r"cannot reach the database: .*; check that it runs, .*DATABASE_URL"):
        schema.check(db, "test-1")
    db.close()
