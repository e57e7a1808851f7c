"""Garbage for the tests of protections."""

from pathlib import Path

import pytest

from tests.integration.protection.registrations import garbage
from tests.support.rig import Rig


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    return garbage(rig, tmp_path)
