"""The limit that the page of a round shows is one that bounds the vault."""

import pytest

from sexton.interfaces.console.routes.vaults import RateLimit, rate_limits
from sexton.recycle.pacing.model import PlaceFigures

NOW = 1_795_797_016_331


def _place(rate: int, *, throttled_at: int | None = None, workers: int = 1) -> PlaceFigures:
    counts = dict.fromkeys(("requests", "throttled", "keys", "ceiling"), 0)
    figures = {"keys_per_second": rate, "throttled_at": throttled_at, "updated_at": NOW, "workers": workers}
    return PlaceFigures(place="p", **figures, **counts)


REFUSED = _place(50, throttled_at=NOW - 5)
FREE = _place(1_000)
IDLE = _place(4_000, throttled_at=1, workers=0)


@pytest.mark.parametrize(
    ("places", "cap", "limit"),
    [
        ([], None, None),
        ([FREE], None, None),
        ([REFUSED], None, RateLimit(50, False, NOW - 5)),
        ([REFUSED, IDLE], None, RateLimit(50, False, NOW - 5)),
        ([REFUSED, FREE], None, None),  # the other place may be deleted from at any rate
        ([REFUSED, FREE], 200, RateLimit(200, True, None)),
        ([REFUSED], 200, RateLimit(50, False, NOW - 5)),
        ([REFUSED], 20, RateLimit(20, True, NOW - 5)),
        ([], 20, RateLimit(20, True, None)),
    ],
)
def test_the_lower_of_cap_and_store_is_the_limit(
    places: list[PlaceFigures], cap: int | None, limit: RateLimit | None
) -> None:
    caps = {} if cap is None else {"disk": cap}

    assert rate_limits({"disk": places}, caps).get("disk") == limit
