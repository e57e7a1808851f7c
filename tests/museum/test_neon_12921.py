"""Neon #12921: a scan covered only a part of the timelines, and the layers of the others seemed to be garbage.

Sexton rejects a live view that is empty, or far smaller than the last complete one.
"""

import pytest

from sexton.check.model import RunState
from sexton.check.sql.repair import RepairRefused
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY


@pytest.mark.slow
def test_neon_12921_incomplete_live_view_confirms_no_orphan(owned: Owned) -> None:
    keys = file_keys(100)
    owned.write_live(*keys)
    owned.check()
    for left in (0, 1, 40):
        owned.forget(*keys[left:])
        for _ in range(3):
            owned.later(DAY + 60)
            report = owned.check()
            assert report.run.state is RunState.PARTIAL
            assert report.confirmed == {}
            with pytest.raises(RepairRefused):
                owned.repairs.orphans("shop")
        owned.live_rows(*((key, 10) for key in keys[left:]))

        assert owned.check().found == {}
