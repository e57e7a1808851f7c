"""A DuckLake in an empty database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lake import AttachedLake


@pytest.fixture
def unattached(database_url: str, tmp_path: Path) -> Iterator[AttachedLake]:
    """Yield a lake that Sexton does not know yet."""
    lake = AttachedLake(database_url, tmp_path)
    yield lake
    lake.close()


@pytest.fixture
def lake(unattached: AttachedLake, capsys: pytest.CaptureFixture[str]) -> AttachedLake:
    """Return an attached lake whose rounds delete."""
    return unattached.attach(capsys)
