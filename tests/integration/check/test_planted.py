"""A check of very many files finds exactly the planted faults, and no upload in progress."""

import resource

import pytest

from sexton.check.checker import Checker
from sexton.check.model import CheckSettings
from tests.integration.check.conftest import Owned
from tests.integration.check.planted_faults import plant
from tests.support.rig import DAY

LONG = [pytest.mark.soak, pytest.mark.timeout(1_800)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objects", "faults"), [(50_000, 250), pytest.param(1_000_000, 1_000, marks=LONG)], ids=["50k", "1M"]
)
def test_findings_are_exactly_the_planted_faults(owned: Owned, objects: int, faults: int) -> None:
    planted = plant(owned, objects, faults)
    settings = CheckSettings(grace_seconds=DAY, heavy_objects=2 * objects)  # one process compares them all
    owned.checker = Checker(owned.check_ports, settings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = owned.check()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
    print(f"{objects:,} objects: memory grew by {grown:.0f} MiB")

    assert report.whole
    assert owned.open_findings() == {
        "LOST": planted.lost,
        "SIZE_MISMATCH": planted.mismatched,
        "ORPHAN": planted.orphans,
    }
    assert report.confirmed == {"LOST": faults, "SIZE_MISMATCH": faults}
    assert grown < 200
