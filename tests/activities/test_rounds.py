"""Rounds over a local vault delete what is due and report it."""

from pathlib import Path

import pytest

from sexton.contract import Gone, NewMark, Refused, undrop
from sexton.recycle.pipeline.model import Cursor
from tests.support.rig import Rig, listing, put


def test_r01_a_round_without_marks_reports_zero(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "data/1/a.dat")

    report = rig.round()

    assert report.state == "SUCCEEDED"
    assert (report.due, report.claimed, report.deleted, report.bytes_freed, report.failed) == (0, 0, 0, 0, 0)
    assert listing(root) == {"data/1/a.dat": 10}


def test_round_deletes_only_due_keys_and_prefixes(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    for name in ("1/a.dat", "1/b.dat", "2/c.dat", "22/d.dat", "3/e.dat"):
        put(root, f"data/{name}")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/1/a.dat", "data/1/b.dat"), bytes=20))
    rig.mark("dropped", NewMark(id="t2", vault="disk", prefix="data/2/"))
    rig.later(10_801)
    rig.mark("dropped", NewMark(id="t3", vault="disk", prefix="data/3/"))

    report = rig.round()

    assert listing(root) == {"data/22/d.dat": 10, "data/3/e.dat": 10}
    assert (report.due, report.claimed, report.removed, report.deleted) == (2, 2, 1, 3)
    assert (report.bytes_freed, report.bytes_estimated, report.absent) == (30, 0, 0)
    assert rig.row("dropped", "t1") is None
    assert rig.row("dropped", "t2").state == "CLAIMED"
    assert rig.row("dropped", "t3").state == "MARKED"
    assert rig.count_files() == 0


def test_late_upload_is_deleted_after_the_grace(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "data/1/a.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="data/1/"))
    rig.later(10_801)
    rig.round()
    put(root, "data/1/late.dat", 7)
    rig.later(3_500)
    rig.round()
    assert listing(root) == {"data/1/late.dat": 7}
    rig.later(101)

    report = rig.round()

    assert listing(root) == {}
    assert (report.deleted, report.removed, report.bytes_freed) == (1, 0, 7)
    rig.later(3_601)  # it found an object: it looks once more
    assert (rig.round().removed, rig.count("mark")) == (1, 0)
    with pytest.raises(Gone):
        rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="data/1/"))


def test_r18_unknown_vault_blocks_only_its_mark(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    rig.mark("dropped", NewMark(id="good", vault="disk", keys=("a.dat",)))
    rig.mark("dropped", NewMark(id="lost", vault="nowhere", keys=("b.dat",)))
    rig.later(10_801)

    report = rig.round()

    assert listing(root) == {}
    assert report.quarantined == 1
    row = rig.row("dropped", "lost")
    assert (row.state, row.quarantined_reason) == ("MARKED", "UNKNOWN_VAULT")


def test_r18_mark_is_deleted_once_its_vault_is_added(rig: Rig, tmp_path: Path) -> None:
    rig.mark("dropped", NewMark(id="lost", vault="disk", keys=("b.dat",)))
    rig.later(10_801)
    rig.round()
    root = rig.local(tmp_path / "v")
    put(root, "b.dat")

    rig.round()

    assert listing(root) == {}
    assert rig.count("mark") == 0


def test_r35_a_mark_is_due_at_exactly_its_time(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="t", vault="disk", keys=("a.dat",)))
    marked_at = rig.row("dropped", "t").marked_at

    for cutoff, ids in ((marked_at - 1, []), (marked_at, ["t"])):
        due = rig.stores.due_marks.select_due("shop", "dropped", cutoff, after=Cursor(), limit=10)

        assert [m.id for m in due] == ids


def test_r37_undrop_is_refused_after_the_claim(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "data/1/a.dat")
    put(root, "data/2/b.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="data/1/"))
    with rig.db.write() as c:
        undrop(c, "shop", "dropped", ["t1"])
    rig.mark("dropped", NewMark(id="t2", vault="disk", prefix="data/2/"))
    rig.later(10_801)
    rig.round()

    assert listing(root) == {"data/1/a.dat": 10}
    with pytest.raises(Refused, match="t2 is claimed in batch"), rig.db.write() as c:
        undrop(c, "shop", "dropped", ["t2"])
    rig.later(3_601)
    rig.round()
    with pytest.raises(Refused, match="t2 is gone"), rig.db.write() as c:
        undrop(c, "shop", "dropped", ["t2"])


def test_r37_undrop_takes_back_a_subtree_with_its_ancestors(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="table", vault="disk", prefix="t/"))
    rig.mark("dropped", NewMark(id="part", vault="disk", prefix="t/p/", parent=("dropped", "table")))
    rig.mark("dropped", NewMark(id="leaf", vault="disk", prefix="t/p/l/", parent=("dropped", "part")))

    with pytest.raises(Refused, match="leaf: its ancestor dropped table is marked"), rig.db.write() as c:
        undrop(c, "shop", "dropped", ["leaf"])

    assert rig.count("mark", state="MARKED") == 3
    with rig.db.write() as c:
        assert undrop(c, "shop", "dropped", ["part", "table", "leaf"]) == 3
    assert rig.count("mark") == 0


def test_r51_new_instance_deletes_nothing_until_enabled(database_url: str, tmp_path: Path) -> None:
    rig = Rig(database_url).instance(enable=False)
    root = rig.local(tmp_path / "v")
    put(root, "a.dat")
    rig.mark("dropped", NewMark(id="t", vault="disk", keys=("a.dat",)))
    rig.later(10_801)

    observed = rig.round()

    assert (observed.observed, observed.due, observed.claimed) == (True, 1, 0)
    assert listing(root) == {"a.dat": 10}
    rig.registry.enable("shop")
    assert rig.round().deleted == 1
    assert listing(root) == {}
