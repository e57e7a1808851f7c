"""What was seen to be lost: objects that somebody named, in a form that nobody compared, at a moment nobody looked."""

import unicodedata
from typing import Any

import pytest
from sqlalchemy import text

from sexton import contract
from sexton.check.model import Discrepancy, RunState, FindingType
from sexton.check.sql.repair import RepairRefused
from sexton.contract import NewMark
from sexton.marks.model import Reason
from tests.integration.check.conftest import Owned, names
from tests.integration.check.test_store import seen
from tests.support.kept import kept_texts
from tests.support.rig import DAY, put

ANY = r"data/.*\.dat"


def orphaned(owned: Owned, *keys: str) -> None:
    """Write them, and check until they are confirmed if they ever will be."""
    owned.both(*names(400))
    for key in keys:
        owned.old(key)
    owned.check()
    owned.later(DAY + 60)
    owned.check()


def collect(owned: Owned, *, check: bool = True) -> int:
    """Let the retention of orphans pass, check as every day, and run a round; return how many objects went."""
    owned.later(3 * DAY + 60)
    if check:
        owned.check()
        owned.later(60)
    return owned.round().deleted


def test_an_orphan_that_stays_one_goes(owned: Owned) -> None:
    orphaned(owned, "data/t9/a_0.dat")
    assert owned.repairs.orphans("shop").marked == 1

    assert collect(owned) == 1
    assert not (owned.root / "data/t9/a_0.dat").exists()
    owned.later(DAY)
    assert owned.check().found == {}


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        ("data/caf\u00e9/", unicodedata.normalize("NFD", "data/caf\u00e9/")),
        ("data/dt%201/", "data/dt 1/"),
        ("data//x/", "data/x/"),
        ("/data/y/", "data/y/"),
        ("data/dt=a:b/", "data/dt=a%3Ab/"),
    ],
)
def test_what_lies_under_a_live_prefix_is_live_however_the_prefix_is_written(
    owned: Owned, written: str, folder: str
) -> None:
    owned.registry.set_key_pattern("shop", ANY)
    owned.live_rows((written, None))
    orphaned(owned, f"{folder}r_0.dat")

    assert owned.found() == {}


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("file://{root}/data/t9/late-7_0.dat", "data/t9/late-7_0.dat"),
        ("data/t9/a%20b_0.dat", "data/t9/a b_0.dat"),
        ("data/t9/a:b_0.dat", "data/t9/a%3Ab_0.dat"),
        ("data//t9/c_0.dat", "data/t9/c_0.dat"),
        ("data/t9/%C3%BC_0.dat", "data/t9/\u00fc_0.dat"),
    ],
)
@pytest.mark.parametrize("when", ["before the repair", "after it"])
def test_a_record_that_comes_late_keeps_its_file_however_it_is_written(
    owned: Owned, written: str, key: str, when: str
) -> None:
    owned.registry.set_key_pattern("shop", ANY)
    orphaned(owned, key)
    row = (written.format(root=owned.root), 10)
    if when == "before the repair":
        owned.live_rows(row)
    owned.repairs.orphans("shop")
    if when == "after it":
        owned.live_rows(row)

    assert collect(owned) == 0
    assert (owned.root / key).exists()
    assert owned.count("mark") == 0  # taken back


def test_without_a_check_that_finds_it_again_no_orphan_goes(owned: Owned) -> None:
    orphaned(owned, "data/t9/a_0.dat")
    owned.repairs.orphans("shop")

    assert collect(owned, check=False) == 0
    held = owned.rounds.reports.rounds("shop")[-1].report
    assert held is not None
    assert kept_texts(held) == {"waits for its next check": 1}
    assert collect(owned) == 1


def test_without_the_view_no_orphan_goes(owned: Owned) -> None:
    orphaned(owned, "data/t9/a_0.dat")
    owned.repairs.orphans("shop")
    owned.later(3 * DAY + 60)
    owned.check()
    with owned.db.write() as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
    report = owned.round()
    with owned.db.write() as c:
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT * FROM file")

    assert report.deleted == 0
    assert "marks were made by a check that read it" in str(kept_texts(report))


def test_each_vault_must_be_named_by_somebody(owned: Owned) -> None:
    other = owned.local(owned.root.parent / "other", "other")
    small = names(4, "s")
    owned.both(*names(500))
    root, owned.root = owned.root, other
    for key in small:
        owned.old(key)
    owned.root = root
    owned.live_rows(*((key, 10) for key in small), vault="other")
    assert owned.check().whole
    with owned.db.write() as c:
        c.execute(text("UPDATE file SET vault = 'Other' WHERE vault = 'other'"))
    for _ in range(2):
        owned.later(DAY + 60)
        report = owned.check()

    assert report.run.state is RunState.PARTIAL
    assert any("vault other" in lack for lack in report.run.missing_inputs)
    assert report.run.evidence is not None
    assert "Other" in str(report.run.evidence.notes)
    with pytest.raises(RepairRefused):
        owned.repairs.orphans("shop")


@pytest.mark.parametrize(
    "names_", [{"vault": None, "prefix": "data/t9/"}, {"vault": "dsk", "keys": ("data/t9/r7_0.dat",)}]
)
def test_a_mark_that_names_no_vault_of_ours_may_mean_any(owned: Owned, names_: dict[str, Any]) -> None:
    owned.mark("dropped", NewMark(id="d9", **names_))
    orphaned(owned, "data/t9/r7_0.dat")

    assert owned.found() == {}


def test_what_was_dropped_after_the_repair_is_its_own_marks_again(owned: Owned) -> None:
    key = "data/t9/a_0.dat"
    orphaned(owned, key)
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
    with owned.db.write() as c:
        assert contract.undrop(c, "shop", "dropped", ["a"]) == 1
    assert (owned.root / key).exists()


def test_another_object_under_an_orphans_key_is_not_deleted(owned: Owned) -> None:
    key = "data/t9/a_0.dat"
    orphaned(owned, key)
    owned.repairs.orphans("shop")
    owned.later(3 * DAY + 60)
    owned.check()
    put(owned.root, key, 99)
    report = owned.round()

    assert report.deleted == 0
    assert (owned.root / key).exists()
    assert owned.count("mark", quarantined_reason=Reason.CHANGED) == 1


def test_an_orphan_that_became_another_object_begins_anew(owned: Owned) -> None:
    key = "data/t9/a_0.dat"
    owned.both(*names(400))
    owned.old(key)
    owned.check()
    owned.later(DAY + 60)
    owned.old(key, 33)
    report = owned.check()

    assert report.confirmed == {}


def test_a_mark_that_was_taken_back_by_hand_makes_an_open_finding_again(owned: Owned) -> None:
    orphaned(owned, "data/t9/a_0.dat")
    owned.repairs.orphans("shop")
    with owned.db.read() as c:
        [mark] = c.execute(text("SELECT id FROM " + owned.db.t.mark.fullname)).scalars()
    with owned.db.write() as c:
        contract.undrop(c, "shop", "orphan", [mark])
    report = owned.check()

    assert report.found == {"ORPHAN": 1}
    assert report.confirmed == {}
    assert owned.repairs.orphans("shop").found == 0


@pytest.mark.parametrize("written", ["file://{root}/{key}", "//{key}", "/{key}", "{key}"])
def test_a_lost_file_is_confirmed_however_its_record_is_written(owned: Owned, written: str) -> None:
    owned.both(*names(20))
    owned.live_rows((written.format(root=owned.root, key="data/t9/x_0.dat"), 10))

    assert owned.check().confirmed == {"LOST": 1}


@pytest.mark.parametrize("key", ["data//t9/x_0.dat", "data/../x", "_sexton/x", "data/a%00b", "data/%2e%2e/x"])
def test_a_record_that_no_store_could_hold_costs_no_check(owned: Owned, key: str) -> None:
    owned.both(*names(20))
    owned.live_rows((key, 10))

    assert owned.check().whole


def test_what_has_a_size_is_an_object_whatever_it_ends_with(owned: Owned) -> None:
    owned.both(*names(20))
    owned.live_rows(("data/t9/copy(1)", 10), ("data/t9/YWJj=", 10))

    assert owned.check().confirmed == {"LOST": 2}


def test_an_owner_that_shows_prefixes_alone_is_checked_too(owned: Owned) -> None:
    owned.old("data/t1/r1_0.dat")
    owned.old("data/t2/r1_0.dat")
    owned.live_rows(("data/t1/", None))
    report = owned.check()

    assert (report.whole, owned.found()) == (True, {"ORPHAN": {"data/t2/r1_0.dat"}})


def test_a_late_word_of_an_older_run_changes_nothing(owned: Owned) -> None:
    orphan = Discrepancy(type=FindingType.ORPHAN, vault="disk", key="data/t9/a_0.dat", size=10)
    old = owned.runs.begin("shop", "terminated")
    first = owned.runs.begin("shop", "one")
    owned.runs.store_findings(first, [orphan])
    owned.runs.conclude(first, seen(first))
    owned.later(DAY + 60)
    new = owned.runs.begin("shop", "two")
    owned.runs.store_findings(new, [orphan])
    owned.runs.store_findings(old, [orphan])
    owned.runs.conclude(new, seen(new))

    assert owned.found(confirmed=True) == {"ORPHAN": {orphan.key}}
    assert owned.runs.conclude(old, seen(old)).lacks == ("it was cut off, another began",)


@pytest.mark.parametrize("keys", ["[1]", "[null]", '["s3://x/y"]', '[["a"]]', '["data/a://b"]'])
def test_a_mark_whose_keys_are_no_keys_costs_no_check(owned: Owned, keys: str) -> None:
    owned.both(*names(20))
    cast = "CAST(:k AS jsonb)" if owned.db.dialect == "postgresql" else ":k"
    owned.sql(
        f"INSERT INTO {{}}mark (instance, kind, id, vault, keys) VALUES ('shop', 'dropped', 'bad', 'disk', {cast})",
        k=keys,
    )

    assert owned.check().whole


def test_sizes_that_are_sums_are_read(owned: Owned) -> None:
    owned.both(*names(20))
    with owned.db.write() as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql(
            "CREATE VIEW sexton_live AS SELECT kind, id, vault, key, sum(bytes) AS bytes FROM file "
            "GROUP BY kind, id, vault, key"
        )

    assert owned.check().whole


def test_a_view_of_several_instances_must_say_whose_a_row_is(owned: Owned) -> None:
    owned.both(*names(20))
    owned.registry.add_instance("toys")

    assert "no column instance" in owned.check().run.missing_inputs[0]


@pytest.mark.parametrize("between", [True, False])
def test_what_was_repaired_and_is_lost_again_is_found_again(owned: Owned, between: bool) -> None:
    key = names(20)[3]
    owned.both(*names(20))
    (owned.root / key).unlink()
    owned.check()
    [finding] = owned.runs.findings("shop")
    owned.old(key)
    owned.repairs._set_repaired([finding.id])
    if between:
        assert owned.check().found == {}
    (owned.root / key).unlink()

    assert owned.check().confirmed == {"LOST": 1}


def test_an_orphan_that_is_known_for_a_while_and_then_not_begins_anew(owned: Owned) -> None:
    key = "data/t9/a_0.dat"
    orphaned(owned, key)
    owned.repairs.orphans("shop")
    owned.live_rows((key, 10))
    owned.later(60)
    owned.check()
    assert owned.count("mark") == 0
    owned.forget(key)
    report = owned.check()

    assert (report.found, report.confirmed) == ({"ORPHAN": 1}, {})
