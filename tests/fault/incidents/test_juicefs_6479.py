"""JuiceFS #6479: the listing of referenced slices swallowed an error, and what it had not read was deleted as unused.

Here a live side that is not read to its end proves nothing: no orphan is confirmed, nothing is marked.
"""

import pytest

from sexton.check.model import RunState
from sexton.check.sql.repair import RepairRefused
from tests.integration.check.conftest import Owned, file_keys, owned
from tests.support.rig import DAY

__all__ = ["owned"]
BROKEN = {"sqlite": "json('{')", "postgresql": "(1 / (length(id) - length(id)))::text"}


def test_juicefs_6479_an_error_in_the_middle_of_the_references_is_no_end_of_them(owned: Owned) -> None:
    owned.write_live(*file_keys(400))
    owned.write_old("data/t9/gone_0.dat")
    owned.check()
    owned.later(DAY + 60)
    bad = f"CASE WHEN id = 'r390_0.dat' THEN {BROKEN[owned.db.dialect]} ELSE id END AS id"
    with owned.db.write() as c:
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
