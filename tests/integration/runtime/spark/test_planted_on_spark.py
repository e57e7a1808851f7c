"""A check on Spark finds exactly the planted faults."""

import pytest

from tests.integration.check.conftest import Owned
from tests.integration.check.planted_faults import plant
from tests.integration.runtime.spark.test_check_on_spark import OnIt

LONG = [pytest.mark.soak, pytest.mark.timeout(1_800)]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("database_url", "objects", "faults"),
    [
        ("postgresql", 10_000, 250),
        pytest.param("postgresql", 1_000_000, 1_000, marks=LONG),
    ],
    ids=["10k", "1M"],
    indirect=["database_url"],
)
def test_findings_on_spark_are_exactly_the_planted_faults(
    owned: Owned, on_spark: OnIt, objects: int, faults: int
) -> None:
    planted = plant(owned, objects, faults)
    report = owned.check(on_spark(owned))

    assert report.whole
    assert owned.open_findings() == {
        "LOST": planted.lost,
        "SIZE_MISMATCH": planted.mismatched,
        "ORPHAN": planted.orphans,
    }
    assert report.confirmed == {"LOST": faults, "SIZE_MISMATCH": faults}
