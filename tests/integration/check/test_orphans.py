"""An orphan is deleted only while every check since its repair still finds it, unchanged and unnamed."""

import os

import pytest

from sexton.check.sql import repair
from sexton.contract import NewMark
from sexton.marks.model import Reason
from sexton.operators.holds.model import Hold
from tests.integration.check.conftest import Owned, file_keys
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.rig import DAY
from tests.support.transactions import owner_write

ANY = r"data/.*\.dat"


def collect(owned: Owned) -> int:
    """Let the retention of orphans pass, check as every day, and run a round; return how many objects went."""
    owned.check(after=3 * DAY + 60)
    owned.later(60)
    return owned.round().deleted


def test_an_orphan_waits_for_its_next_check_and_is_then_deleted(owned: Owned) -> None:
    owned.orphaned("data/t9/a_0.dat")
    assert owned.repairs.orphans("shop").marked == 1

    retention = owned.policy.retention_seconds | {"orphan": 3_600}
    owned.policy = owned.policy.model_copy(update={"retention_seconds": retention})
    assert owned.round(after=3_601).deleted == 0  # the check is recent, but from before the mark
    held = owned.rounds.reports.rounds("shop")[-1].report
    assert held is not None
    assert kept_texts(held) == {"waits for its next check": 1}
    owned.check()
    assert owned.round(after=2 * DAY + 60).deleted == 0  # that check is too old
    assert collect(owned) == 1
    assert not (owned.root / "data/t9/a_0.dat").exists()
    assert owned.check(after=DAY).found == {}


def test_a_repair_keeps_an_orphan_whose_key_is_too_long(owned: Owned) -> None:
    owned.registry.set_key_pattern("shop", ANY)
    owned.orphaned("data/" + "long/" * 220 + "a_0.dat", "data/t9/a_0.dat")

    repaired = owned.repairs.orphans("shop")

    assert (repaired.marked, repaired.kept) == (1, 1)


LATE_RECORDS = {
    "data/t9/late-7_0.dat": "file://{root}/data/t9/late-7_0.dat",
    "data/t9/a b_0.dat": "data/t9/a%20b_0.dat",
    "data/t9/a%3Ab_0.dat": "data/t9/a:b_0.dat",
    "data/t9/c_0.dat": "data//t9/c_0.dat",
    "data/t9/\u00fc_0.dat": "data/t9/%C3%BC_0.dat",
}
"""An orphan's key → how its late record writes it."""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the repair", "after it"])
def test_a_late_record_blocks_deletion_in_every_spelling(owned: Owned, when: str) -> None:
    owned.registry.set_key_pattern("shop", ANY)
    owned.write_live(*file_keys(200, "t2"))  # so many that five orphans need no approval
    owned.orphaned(*LATE_RECORDS)
    rows = [(written.format(root=owned.root), 10) for written in LATE_RECORDS.values()]
    if when == "before the repair":
        owned.live_rows(*rows)
    marked = owned.repairs.orphans("shop").marked
    if when == "after it":
        owned.live_rows(*rows)

    assert (marked, owned.repairs.awaits("shop")) == (len(rows), "")
    assert collect(owned) == 0
    assert [key for key in LATE_RECORDS if not (owned.root / key).exists()] == []
    assert owned.count("mark") == 0  # taken back


def test_an_orphan_is_not_deleted_without_the_live_view(owned: Owned) -> None:
    owned.orphaned("data/t9/a_0.dat")
    owned.repairs.orphans("shop")
    owned.check(after=3 * DAY + 60)
    with owner_write(owned.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
    report = owned.round()
    with owner_write(owned.db) as c:
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT * FROM file")

    assert report.deleted == 0
    assert "sexton_live does not exist" in str(kept_texts(report))


def test_a_drop_after_the_repair_has_its_own_mark_and_retention(owned: Owned) -> None:
    key = "data/t9/a_0.dat"
    owned.orphaned(key)
    owned.repairs.orphans("shop")
    owned.live_rows((key, 10))
    owned.later(2 * DAY)
    owned.forget(key)
    owned.mark("dropped", NewMark(id="a", vault="disk", keys=(key,)))
    owned.check()
    owned.policy = owned.policy.model_copy(
        update={"retention_seconds": owned.policy.retention_seconds | {"dropped": 30 * DAY}}
    )

    assert collect(owned) == 0
    assert owned.undrop_marks("dropped", "a") == 1
    assert (owned.root / key).exists()


def test_a_rewritten_orphan_is_unconfirmed_again(owned: Owned) -> None:
    key = "data/t9/a_0.dat"
    owned.write_live(*file_keys(20))
    owned.write_old(key)
    owned.check()
    owned.later(DAY + 60)
    owned.write_old(key, 33)
    report = owned.check()

    assert report.confirmed == {}


def resize(owned: Owned, key: str) -> None:
    """Write other content under the same time, as a restore does that keeps the times of files."""
    path = owned.root / key
    at = path.stat().st_mtime_ns
    path.write_bytes(b"x" * 99)
    os.utime(path, ns=(at, at))


def test_an_orphan_of_another_size_is_kept_at_any_age(owned: Owned) -> None:
    before_repair, before_round = keys = ["data/t9/a_0.dat", "data/t9/b_0.dat"]
    owned.orphaned(*keys)
    resize(owned, before_repair)
    repaired = owned.repairs.orphans("shop")
    owned.check(after=3 * DAY + 60)
    owned.later(60)
    resize(owned, before_round)
    report = owned.round()

    assert (repaired.marked, repaired.kept, report.deleted) == (1, 1, 0)
    assert owned.count("mark", quarantined_reason=Reason.CHANGED, state="MARKED") == 1
    assert [key for key in keys if not (owned.root / key).exists()] == []


def test_an_undropped_orphan_mark_reopens_the_finding(owned: Owned) -> None:
    owned.orphaned("data/t9/a_0.dat")
    owned.repairs.orphans("shop")
    [mark] = owned.rows("mark")
    owned.undrop_marks("orphan", mark.id)
    report = owned.check()

    assert report.found == {"ORPHAN": 1}
    assert report.confirmed == {}
    assert owned.repairs.orphans("shop").found == 0


def test_refuted_marks_are_removed_in_pages_also_quarantined(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "PAGE_MARKS", 2)
    keys = [f"data/t9/{name}_0.dat" for name in "abcd"]
    owned.orphaned(*keys)
    owned.repairs.orphans("shop")
    [second] = [mark.id for mark in owned.rows("mark") if mark._mapping["keys"] == [keys[1]]]
    owned.update("mark", {"id": second}, quarantined_reason=Reason.BAD_KEY)
    assert owned.count("mark", quarantined_reason=Reason.BAD_KEY) == 1
    owned.live_rows(*((key, 10) for key in keys[1:]))
    owned.check()

    assert owned.count("mark") == owned.count("mark", quarantined_reason=None) == 1


def test_holds_on_a_table_or_a_record_reach_an_orphan(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    owned.registry.set_key_pattern("shop", r"data/(?P<table>[a-z0-9_]+)/(?P<record>[A-Za-z0-9.-]+)_\d+\.dat")
    keys = ["data/user_events/a_0.dat", "data/user/b_0.dat", "data/user_events2/c_0.dat", "data/user/d_0.dat"]
    owned.orphaned(*keys)
    owned.repairs.orphans("shop")
    holds = []
    for kind, id_ in (("table", "user_events"), ("rowset", "d")):
        hold = Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="audit")
        holds.append(owned.holds.place(hold, 9 * DAY)[0])

    deleted = collect(owned)
    why = run(owned, capsys, "why", keys[0]).out

    assert (deleted, [(owned.root / key).exists() for key in keys]) == (2, [True, False, False, True])
    assert f"kept by {holds[0].kept}" in why
