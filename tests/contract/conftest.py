"""A ``Rig`` of a clean database for contract tests."""

from collections.abc import Iterator

import pytest

from tests.rig import Rig


@pytest.fixture
def postgres_rig(postgres_url: str) -> Iterator[Rig]:
    """One instance ``shop`` in PostgreSQL."""
    rig = Rig(postgres_url).instance()
    yield rig
    rig.db.close()


@pytest.fixture
def rig(clean_url: str) -> Iterator[Rig]:
    """One instance ``shop``, on SQLite and on PostgreSQL in turn."""
    rig = Rig(clean_url).instance()
    yield rig
    rig.db.close()
