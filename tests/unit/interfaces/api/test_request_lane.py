"""A lane without waiting refuses at once while all of its places are taken."""

import asyncio

import pytest

from sexton.interfaces.api.errors import TooManyRequests
from sexton.interfaces.api.lanes import RequestLane


def test_a_full_lane_that_does_not_wait_refuses() -> None:
    async def fill() -> None:
        lane = RequestLane(places=2, per_token=4, waits=False)
        async with lane.place("ada"), lane.place("bob"):
            with pytest.raises(TooManyRequests, match="all places"):
                await lane.place("eve").__aenter__()
        async with lane.place("eve"):
            pass

    asyncio.run(fill())
