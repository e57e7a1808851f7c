"""An error of the database's driver is one sentence: whether the database was reached, and what it answered."""

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from sexton.interfaces.cli.main import _explained


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("connection failed: Connection refused", "cannot reach the database: connection failed: Connection refused"),
        ("connection timeout expired", "cannot reach the database: connection timeout expired"),
        ("permission denied for table mark", "the database answered: permission denied for table mark"),
    ],
)
def test_unreachable_database_has_not_answered(message: str, sentence: str) -> None:
    assert _explained(OperationalError("SELECT 1", None, psycopg.OperationalError(message))) == sentence
