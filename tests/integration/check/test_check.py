"""A check compares objects with the owner's view in both directions, and confirms nothing from incomplete input."""

import random

import pytest

from sexton.check.model import RunState
from sexton.check.sql.repair import RepairRefused
from sexton.contract import NewMark
from sexton.insight.metrics.figures.store import FigureStore
from sexton.storage.local.vault import LocalVault
from tests.integration.check.conftest import Owned, file_keys
from tests.support.kept import kept_texts
from tests.support.planned import waiting_plans
from tests.support.rig import DAY, stores_of


def test_k01_lost_findings_are_exactly_the_deleted_files(owned: Owned) -> None:
    keys = file_keys(300)
    owned.write_live(*keys)
    clean = owned.check()
    gone = set(random.Random(1).sample(keys, 7))
    for key in gone:
        (owned.root / key).unlink()
    after = owned.check()

    assert (clean.run.state, clean.found) == (RunState.WHOLE, {})
    assert owned.open_findings() == {"LOST": gone}
    assert after.confirmed == {"LOST": 7}  # looked at twice, in a whole run
    assert {f.record for f in owned.runs.findings("shop")} == {f"rowset/{k.split('/')[-1]}" for k in gone}


def test_a_mismatch_needs_a_record_with_a_size(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.write_old("data/t2/r1_0.dat", 7)
    owned.live_rows(("data/t2/r1_0.dat", None))
    owned.write_old(file_keys(20)[3], 11)
    owned.check()

    [finding] = owned.runs.findings("shop")

    assert (finding.type, finding.key, finding.expected, finding.size) == ("SIZE_MISMATCH", file_keys(20)[3], 10, 11)
    assert finding.confirmed_at is not None


def test_k02_k04_k08_objects_without_a_record_are_orphans(owned: Owned) -> None:
    owned.write_live(*file_keys(200))
    owned.write_old("data/t9/r7_0.dat")
    owned.write_old("data/t9/young_0.dat", age=DAY / 2)
    owned.write_old("tmp/readme.txt")
    first = owned.check()
    second = owned.check(after=DAY + 60)

    assert first.found == {"ORPHAN": 1, "UNKNOWN_KIND": 1}
    assert first.confirmed == {}
    # By now the young one is older than the grace.
    assert owned.open_findings() == {
        "ORPHAN": {"data/t9/r7_0.dat", "data/t9/young_0.dat"},
        "UNKNOWN_KIND": {"tmp/readme.txt"},
    }
    assert owned.open_findings(confirmed=True) == {"ORPHAN": {"data/t9/r7_0.dat"}}
    assert second.confirmed == {"ORPHAN": 1}
    assert owned.repairs.orphans("shop").marked == 1


def test_k03_an_object_of_a_mark_is_no_orphan(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    for key in ("data/t2/p_0.dat", "data/t2/d_0.dat", "data/t3/x_0.dat", "data/t3/sub/y_0.dat"):
        owned.write_old(key)
    owned.mark("dropped", NewMark(id="d", vault="disk", keys=("data/t2/d_0.dat",)))
    owned.mark("dropped", NewMark(id="t3", vault="disk", prefix="data/t3/"))
    owned.mark("prepared", NewMark(id="p", vault="disk", prefix="data/t2/p_"))
    report = owned.check()
    owned.later(4 * DAY)
    owned.sql("UPDATE {}mark SET state = 'CLAIMED', claimed_at = marked_at, batch = 1 WHERE id = 'd'")
    claimed = owned.check()

    assert (report.found, claimed.found) == ({}, {})
    assert report.whole


def test_k05_an_object_written_during_the_check_is_no_finding(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    listing = owned.direct._list

    def writing(*given: object) -> object:
        owned.write_old("data/t5/before_0.dat", age=0)
        seen = listing(*given)  # type: ignore[arg-type]
        owned.write_old("data/t5/after_0.dat", age=0)
        return seen

    owned.direct._list = writing  # type: ignore[method-assign,assignment]
    report = owned.check()

    assert report.found == {}
    assert report.whole


def test_k06_a_failed_listing_confirms_nothing(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.write_old("data/t9/r7_0.dat")
    owned.check()
    owned.later(DAY + 60)
    (owned.root / file_keys(20)[0]).unlink()
    (owned.root / "_sexton/vault.json").rename(owned.root / "away.json")
    report = owned.check()

    assert report.run.state is RunState.PARTIAL
    assert "NO_MARKER" in report.run.missing_inputs[0]
    assert report.confirmed == {}
    assert "LOST" not in owned.open_findings()
    with pytest.raises(RepairRefused, match="is not whole"):
        owned.repairs.orphans("shop")


def test_k07_an_empty_live_side_proves_nothing(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.check()
    owned.forget(*file_keys(20))
    report = owned.check(after=DAY + 60)

    assert report.run.state is RunState.PARTIAL
    assert any("no live file was seen" in lack for lack in report.run.missing_inputs)
    assert report.confirmed == {}


def test_k09_two_vaults_with_the_same_keys_are_kept_apart(owned: Owned) -> None:
    other = owned.local(owned.root.parent / "other", "other")
    owned.write_live(*file_keys(20))
    root, owned.root = owned.root, other
    for key in file_keys(10):
        owned.write_old(key)
    owned.root = root
    owned.live_rows(*((k, 10) for k in file_keys(10)[1:]), vault="other")
    (owned.root / file_keys(20)[5]).unlink()
    owned.check()

    found = {(f.type, f.vault, f.key) for f in owned.runs.findings("shop")}

    assert found == {("LOST", "disk", file_keys(20)[5]), ("ORPHAN", "other", file_keys(10)[0])}


def test_k10_a_killed_check_is_repeated_with_the_same_findings(owned: Owned) -> None:
    owned.write_live(*file_keys(50))
    owned.write_old("data/t9/r7_0.dat")
    (owned.root / file_keys(50)[5]).unlink()
    saw, told = owned.runs.store_findings, []

    def dies(*given: object) -> None:
        told.append(given)
        saw(*given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    owned.runs.store_findings = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        owned.check(run="one")
    owned.runs.store_findings = saw  # type: ignore[method-assign]
    report = owned.check(run="one")

    assert told
    assert report.whole
    assert owned.open_findings() == {"LOST": {file_keys(50)[5]}, "ORPHAN": {"data/t9/r7_0.dat"}}
    assert len(owned.runs.runs("shop")) == 1


@pytest.mark.slow
def test_k11_orphans_are_marked_and_a_returned_one_survives(owned: Owned) -> None:
    keys = ["data/t9/a_0.dat", "data/t9/b_0.dat", "data/t9/c_0.dat"]
    owned.orphaned(*keys)
    counted = owned.repairs.orphans("shop", dry_run=True)
    done = owned.repairs.orphans("shop")
    again = owned.repairs.orphans("shop")
    early = owned.round()
    owned.live_rows((keys[1], 10))  # restored
    owned.check(after=3 * DAY + 60)
    late = owned.round()

    assert (counted.found, counted.marked, owned.count("mark", kind="orphan")) == (3, 0, 0)
    assert (done.marked, again.marked) == (3, 0)
    assert (early.deleted, late.deleted) == (0, 2)
    assert not (owned.root / keys[0]).exists()
    assert (owned.root / keys[1]).exists()


def test_k14_a_database_behind_its_vault_repairs_nothing(owned: Owned) -> None:
    owned.orphaned("data/t9/a_0.dat")
    copy = owned.copy()
    owned.round()
    report = copy.check()

    assert "BEHIND" in report.run.missing_inputs[0]
    with pytest.raises(RepairRefused, match="not whole"):
        copy.repairs.orphans("shop")
    assert copy.count("mark") == 0


@pytest.mark.slow
def test_k14_orphans_above_one_percent_await_approval(owned: Owned) -> None:
    owned.orphaned(*(f"data/t9/x{i}_0.dat" for i in range(5)))
    reason = owned.repairs.awaits("shop")
    # Several small repairs await it together.
    marked = [owned.repairs.orphans("shop", limit=limit).marked for limit in (3, 1)]
    few = owned.repairs.awaits("shop", limit=0)
    marked.append(owned.repairs.orphans("shop", limit=9).marked)
    owned.check(after=3 * DAY + 60)

    unapproved = owned.round(after=60)
    [plan] = waiting_plans(owned)
    approved = owned.round(plan=plan)

    assert "5 orphans are 1.2 % of the 405 objects of vault disk" in reason
    assert (marked, few) == ([3, 1, 1], "")
    assert (unapproved.deleted, kept_texts(unapproved)) == (0, {f"approval of plan {plan}": 5})
    assert reason in owned.rounds.plans.find_plan(plan).awaits
    assert approved.deleted == 5


def test_a_repair_below_a_prefix_marks_no_other_orphan(owned: Owned) -> None:
    owned.orphaned("data/t9/x_0.dat", "data/t91/x_0.dat", "data/t8/x_0.dat")

    counted = owned.repairs.orphans("shop", key_prefix="data/t91", dry_run=True)
    done = owned.repairs.orphans("shop", key_prefix="data/t91")

    assert (counted.found, done.found, done.marked) == (1, 1, 1)
    assert owned.open_findings()["ORPHAN"] == {"data/t9/x_0.dat", "data/t8/x_0.dat"}


@pytest.mark.slow
def test_k15_a_late_commit_removes_the_orphans_mark(owned: Owned) -> None:
    key = "data/t9/late-7_0.dat"
    owned.orphaned(key)
    assert owned.repairs.orphans("shop").marked == 1
    owned.later(3 * DAY + 60)
    owned.live_rows((key, 10))
    kept = owned.round()
    report = owned.check()

    assert kept.deleted == 0
    assert (owned.root / key).exists()
    assert owned.count("mark") == 0
    assert report.whole


def test_live_side_that_misses_what_is_new_proves_nothing(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.write_old("tmp/readme.txt")
    before = owned.check()
    for key in file_keys(45)[20:]:
        owned.write_old(key)  # the view shows the first 20 only
    collapsed = owned.check()
    again = owned.check(after=DAY + 60)
    owned.runs.rebase("shop")
    accepted = owned.check()

    assert before.whole
    assert not collapsed.whole
    assert "records name 43% of 46 objects, far below the 95%" in str(collapsed.run.missing_inputs)
    assert (again.whole, again.confirmed) == (False, {})
    assert accepted.whole


def test_a_vault_that_expires_versions_too_early_is_named(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    owned.write_live(*file_keys(5))
    figures = FigureStore(owned.db, stores_of(owned.db).insight, owned.policy, 3_600)
    told = {}
    for days in (30, 3, None):
        monkeypatch.setattr(LocalVault, "versions_days", lambda _, days=days: days)
        evidence = owned.check().run.evidence
        assert evidence is not None
        [shop] = figures.read().instances
        told[days] = (evidence.too_late, shop.too_late_vaults, "keeps versions" in str(evidence.notes))
        # With 3 days, no check would be frequent enough.
        assert "check_object_interval_seconds" not in str(evidence.notes)

    assert told == {30: ((), 0, False), 3: (("disk",), 1, True), None: ((), 0, False)}


@pytest.mark.slow
def test_objects_deleted_by_rounds_are_not_lost(owned: Owned) -> None:
    owned.write_live(*file_keys(40))
    garbage = [f"data/t9/r{n}_0.dat" for n in range(100)]
    for key in garbage:
        owned.write_old(key)
    owned.mark("dropped", *(NewMark(id=f"g{n}", vault="disk", keys=(key,)) for n, key in enumerate(garbage)))
    before = owned.check()
    assert owned.round(after=10_801).deleted == 100
    after = owned.check()
    for key in file_keys(40)[:30]:
        (owned.root / key).unlink()
    vanished = owned.check()

    assert (before.run.state, after.run.state) == (RunState.WHOLE, RunState.WHOLE)
    assert vanished.run.state is RunState.PARTIAL
    assert "10 objects are far below the 40 of the last whole run; if correct: sexton check rebase" in str(
        vanished.run.missing_inputs
    )
