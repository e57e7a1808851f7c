"""What a purge does now is said in words for operators."""

import pytest

from sexton.runtime.temporal.works import PURGES
from sexton.wal.messages import PurgeProgress


@pytest.mark.parametrize(("behind", "regions"), [(1, "1 region"), (2, "2 regions"), (1_200, "1,200 regions")])
def test_a_purge_counts_the_regions_that_it_waits_for(behind: int, regions: str) -> None:
    progress = PurgeProgress(topic="orders", doing="FLUSHING", behind=behind)

    assert PURGES.describe(progress, "orders").startswith(f"it waits for {regions} to flush old entries; ")
    assert PURGES.describe(progress, "orders").endswith("sexton wal now orders")
