"""JuiceFS #6479: a listing ignored an error, and slices that it had not read were deleted as unused.

A live view that Sexton could not read to its end confirms no orphan, so that nothing is marked.
"""

import pytest

from sexton.check.model import RunState
from sexton.check.sql.repair import RepairRefused
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY
from tests.support.transactions import owner_write


def test_juicefs_6479_unread_references_confirm_no_orphan(owned: Owned) -> None:
    owned.write_live(*file_keys(400))
    owned.write_old("data/t9/gone_0.dat")
    owned.check()
    owned.later(DAY + 60)
    bad = "CASE WHEN id = 'r390_0.dat' THEN (1 / (length(id) - length(id)))::text ELSE id END AS id"
    with owner_write(owned.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql(f"CREATE VIEW sexton_live AS SELECT kind, {bad}, vault, key, bytes FROM file")
    report = owned.check()

    assert report.run.state is RunState.PARTIAL
    assert any("cannot be read" in lack for lack in report.run.missing_inputs)
    assert report.confirmed == {}
    with pytest.raises(RepairRefused, match="not whole"):
        owned.repairs.orphans("shop")
    owned.later(4 * DAY)
    owned.round()
    assert all((owned.root / key).exists() for key in (*file_keys(400), "data/t9/gone_0.dat"))
