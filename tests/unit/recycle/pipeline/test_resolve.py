"""The bytes that an owner states for a mark are divided among its keys, and none is lost."""

import pytest

from sexton.marks.model import Place
from sexton.recycle.pipeline.resolve import stated_shares

KEYS = Place(vault="cold", keys=("a", "b"))
PREFIX = Place(vault="cold", prefix="t/")


@pytest.mark.parametrize(
    ("stated", "places", "shares"),
    [
        (11, [KEYS, Place(vault="warm", keys=("c",))], [3, 4, 4]),
        (1, [KEYS], [0, 1]),
        (0, [KEYS], []),
        (11, [KEYS, PREFIX], []),
        (11, [Place(vault="cold", keys=())], []),
    ],
)
def test_the_shares_of_keys_sum_to_what_is_stated(stated: int, places: list[Place], shares: list[int]) -> None:
    assert list(stated_shares(stated, places)) == shares
