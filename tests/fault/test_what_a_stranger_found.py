"""What a reader of the code found: copies of a database, markers that cannot be written, busy stores."""

from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.owner import SqlOwner
from sexton.recycle.rounds.sql.reports import Reports
from tests.fault.conftest import Faulty, backed_up_before_an_undrop
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put


def test_a_copy_of_the_database_never_catches_up_by_counting_rounds(tmp_path: Path) -> None:
    rig, restored, root = backed_up_before_an_undrop(tmp_path)
    for _ in range(3):
        rig.round()

    held = [kept_texts(restored.round()) for _ in range(6)]

    assert held == [{"vault disk: BEHIND": 1}] * 6
    assert listing(root) == {"a.dat": 10}
    assert kept_texts(rig.round()) == {}


def test_a_clone_is_found_out_in_each_of_its_rounds(tmp_path: Path) -> None:
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}").instance()
    root = rig.local(tmp_path / "v")
    rig.round()
    clone = rig.copy(tmp_path / "clone.db")
    rig.round()
    put(root, "a.dat")
    clone.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    clone.later(10_801)

    assert [kept_texts(clone.round()) for _ in range(4)] == [{"vault disk: BEHIND": 1}] * 4
    assert listing(root) == {"a.dat": 10}


def test_where_the_marker_cannot_be_written_the_round_deletes_nothing(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="a", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("PutObject", 403, "AccessDenied")

    refused = faulty.rig.round()

    assert (kept_texts(refused), refused.vaults) == ({"vault cold: DENIED": 1}, {"cold": "DENIED"})
    assert faulty.deletes() == []
    assert faulty.rig.round().removed == 1
    assert faulty.listing() == {}


def test_a_busy_store_takes_the_marker_a_moment_later(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="a", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("PutObject", 503, "SlowDown", times=6)

    report = faulty.rig.round()

    assert (report.removed, report.faults) == (1, 0)


def test_a_busy_store_is_listed_again(faulty: Faulty) -> None:
    faulty.put(*(f"d/{mark}/{n}.dat" for mark in range(5) for n in range(3)))
    marks = (NewMark(id=f"m{n}", vault="cold", prefix=f"d/{n}/") for n in range(5))
    faulty.rig.mark("dropped", *marks)
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("ListObjectsV2", 503, "SlowDown", times=24)

    report = faulty.rig.round()

    assert faulty.proxy.faults_left("ListObjectsV2") == 0
    assert (report.deleted, kept_texts(report), report.faults) == (15, {}, 0)
    assert faulty.listing() == {}


def test_a_view_that_cannot_be_counted_is_no_view_without_prefixes(tmp_path: Path) -> None:
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}").instance()
    owner = SqlOwner(rig.db)
    assert owner.live_objects("shop") is None
    with rig.db.write() as c:
        c.exec_driver_sql("CREATE TABLE rows (kind, id, vault, key)")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT kind, id, vault, key FROM rows")
        c.exec_driver_sql("INSERT INTO rows VALUES ('r', '1', 'disk', 'd/1.dat'), ('r', '2', 'disk', 'd/2.dat')")
    assert owner.live_objects("shop") == 2
    with rig.db.write() as c:
        c.exec_driver_sql("INSERT INTO rows VALUES ('r', '3', 'disk', 'd/3_')")
    assert owner.live_objects("shop") is None
    with rig.db.write() as c:
        c.exec_driver_sql("ALTER TABLE rows RENAME TO gone")
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT kind, id, vault, key FROM rows")

    with pytest.raises(OwnerSilent, match="cannot be counted"):
        owner.live_objects("shop")


def test_a_round_that_waits_for_its_lease_waits_since_its_first_try(tmp_path: Path) -> None:
    rig = Rig(f"sqlite:///{tmp_path / 'sexton.db'}").instance()
    rig.rounds.open("shop", "first", None, rig.policy)
    for _ in range(2):
        with pytest.raises(Exception, match="is running"):
            rig.rounds.open("shop", "second", None, rig.policy)
        rig.later(5)

    with rig.db.read() as c:
        row = c.execute(select(rig.db.t.round).where(rig.db.t.round.c.run_id == "second")).one()
    assert (row.waiting_since, row.report) == (row.started_at, None)

    rig.rounds.abandon("second", "halted: stopped")

    [ended] = [r.report for r in Reports(rig.db).rounds("shop", last=1)]
    assert ended is not None
    assert ended.error == "ended before it had a lease: halted: stopped"
