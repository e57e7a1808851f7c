"""Thanos #8182: a block that was still being uploaded seemed incomplete, hence garbage, and was deleted.

Sexton judges no object younger than the grace, an orphan needs two checks a day apart and an operator's repair, and a
commit before the claim takes it back.
"""

from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY, put


def test_thanos_8182_an_upload_in_progress_is_not_judged(owned: Owned) -> None:
    owned.write_live(*file_keys(200))
    for n in range(3):
        put(owned.root, f"data/up/{n}x_0.dat")
        assert owned.check().found == {}
    owned.live_rows(*((f"data/up/{n}x_0.dat", 10) for n in range(3)))
    owned.later(3 * DAY)

    assert owned.check().found == {}


def test_thanos_8182_late_commit_brings_back_its_upload(owned: Owned) -> None:
    owned.write_live(*file_keys(400))
    owned.write_old("data/up/slow_0.dat")
    owned.check()
    owned.later(DAY + 60)
    owned.check()
    assert owned.repairs.orphans("shop").marked == 1
    owned.later(DAY)
    assert owned.round().deleted == 0  # its retention
    owned.live_rows(("data/up/slow_0.dat", 10))
    owned.later(10 * DAY)
    report = owned.round()

    assert report.deleted == 0
    assert (owned.root / "data/up/slow_0.dat").exists()
