"""An instance whose rounds have a limit."""

from collections.abc import Iterator

import pytest

from tests.support.planned import Limited, limited_policy
from tests.support.rig import Rig


@pytest.fixture
def shop(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Limited]:
    """An enabled instance under a limit of 2,000 objects, or of the ``LIMIT`` of the module."""
    limited_rig = Limited(rig.url)
    limited_rig.policy = limited_policy(objects=getattr(request.module, "LIMIT", 2_000))
    yield limited_rig
    limited_rig.db.close()
