"""Milvus #27202: a listing took longer than the grace of young files, and files written meanwhile seemed old.

Sexton fixes the cutoff before the listing begins, reads references after it ended, and checks a mark again before
deletion.
"""

from typing import Any

import pytest

from tests.integration.check.conftest import Owned
from tests.integration.check.conftest import file_keys as keys
from tests.support.rig import DAY


@pytest.mark.slow
def test_milvus_27202_slow_listing_judges_no_newer_object(owned: Owned) -> None:
    owned.write_live(*keys(200))
    listing, during = owned.direct._list, []

    def slow(*given: Any) -> Any:
        n = len(during)
        owned.write_old(f"data/t5/new{n}_0.dat", age=0)
        during.append(n)
        owned.later(3 * DAY)  # as long as that takes
        seen = listing(*given)
        owned.live_rows((f"data/t5/new{n}_0.dat", 10))  # committed after it was listed
        return seen

    owned.direct._list = slow  # type: ignore[method-assign]
    reports = [owned.check(), owned.check()]

    assert [r.found for r in reports] == [{}, {}]
    assert all(r.whole for r in reports)
