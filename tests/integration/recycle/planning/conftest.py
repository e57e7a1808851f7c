"""An instance whose rounds have a limit."""

from collections.abc import Iterator

import pytest

from tests.support.planned import Limited, limited_policy


@pytest.fixture
def shop(database_url: str, request: pytest.FixtureRequest) -> Iterator[Limited]:
    """An enabled instance under a limit of 2,000 objects, or of the ``LIMIT`` of the module."""
    shop = Limited(database_url)
    shop.instance()
    shop.policy = limited_policy(objects=getattr(request.module, "LIMIT", 2_000))
    yield shop
    shop.db.close()
