"""Sexton reads the owner's live view again after a crash, and reports a view that it cannot read."""

from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.kernel.crash_points import installed
from sexton.owners.plugin import OwnerContext
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.owner import SqlOwner
from tests.fault.conftest import Faulty
from tests.support.crashes import Crash, crash_at
from tests.support.kept import kept_texts
from tests.support.rig import Rig
from tests.support.transactions import owner_write


@pytest.mark.slow
def test_live_view_is_read_again_for_a_late_file_that_failed(faulty: Faulty) -> None:
    rig = faulty.rig
    with owner_write(rig.db) as c:
        c.execute(text("CREATE TABLE live (kind text, id text, vault text, key text)"))
        c.execute(text("CREATE VIEW sexton_live AS SELECT * FROM live"))
    faulty.drop("p", "p/a", prefix="p/")
    rig.round()
    faulty.put("p/late")
    rig.later(3_601)
    faulty.proxy.fail_keys({"p/late": "AccessDenied"}, times=1)
    with installed(crash_at("marks.removed")), pytest.raises(Crash):
        rig.round()
    with owner_write(rig.db) as c:
        c.execute(text("INSERT INTO live VALUES ('rowset', 'r', 'cold', 'p/late')"))
    rig.later(61)

    report = rig.round()

    assert set(faulty.listing()) == {"p/late"}
    assert (report.deleted, kept_texts(report)) == (0, {"live": 1})


def test_unreadable_live_view_raises_instead_of_a_count(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "v")
    owner = SqlOwner(OwnerContext(rig.db, rig.registry))
    assert owner.live_objects("shop") is None
    with owner_write(rig.db) as c:
        c.exec_driver_sql("CREATE TABLE rows (kind text, id text, vault text, key text)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT kind, id, vault, key FROM rows")
        c.exec_driver_sql("INSERT INTO rows VALUES ('r', '1', 'disk', 'd/1.dat'), ('r', '2', 'disk', 'd/2.dat')")
    assert owner.live_objects("shop") == 2
    with owner_write(rig.db) as c:
        c.exec_driver_sql("INSERT INTO rows VALUES ('r', '3', 'disk', 'd/3_')")
    assert owner.live_objects("shop") is None
    with owner_write(rig.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")

    with pytest.raises(OwnerSilent, match="does not exist"):
        owner.live_objects("shop")
