"""A finding is confirmed or resolved only by whole runs, and found again when it is back; which instances are due."""

from pathlib import Path

import pytest

from sexton.check.model import (
    Discrepancy,
    Evidence,
    Finding,
    FindingState,
    FindingType,
    Listing,
    Run,
    RunState,
    UnknownFinding,
)
from sexton.check.sql.store import CheckSchedule, CheckStore
from sexton.kernel.errors import BadInput
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import Rig

DAY = 86_400
A = Discrepancy(type=FindingType.ORPHAN, vault="disk", key="data/a", size=7, etag="e", record="rowset/1")
B = Discrepancy(type=FindingType.ORPHAN, vault="disk", key="data/b", size=8)
LOST = Discrepancy(type=FindingType.LOST, vault="disk", key="data/l", expected=9, record="rowset/2")


@pytest.fixture
def store(rig: Rig) -> CheckStore:
    return CheckStore(rig.db)


def seen(run: Run, **changed: object) -> Evidence:
    whole = Evidence(
        cutoff=run.cutoff,
        listings=(Listing(vault="disk", parts=2, ended=2, objects=100, live=90),),
        listed_at=run.cutoff + 1,
        live_from=run.cutoff + 2,
        live=90,
    )
    return whole.model_copy(update=changed)


def checked(store: CheckStore, name: str, *found: Discrepancy, whole: bool = True) -> Run:
    """One run that sees this."""
    run = store.begin("shop", name)
    store.store_findings(run, found)
    store.conclude(run, seen(run) if whole else seen(run, live=None))
    return run


def findings_by_key(store: CheckStore) -> dict[str, Finding]:
    return {f.key: f for f in store.findings("shop")}


def test_an_orphan_needs_two_whole_runs_a_day_apart(store: CheckStore, rig: Rig) -> None:
    checked(store, "1", A)
    first = findings_by_key(store)["data/a"]
    rig.later(DAY // 2)
    checked(store, "2", A)
    soon = findings_by_key(store)["data/a"]
    rig.later(DAY // 2 + 60)
    checked(store, "3", A, B)
    late = findings_by_key(store)

    assert (first.confirmed_at, soon.confirmed_at) == (None, None)
    assert late["data/a"].confirmed_at is not None
    assert late["data/b"].confirmed_at is None
    assert (late["data/a"].first_seen, late["data/a"].record, late["data/a"].size) == (first.first_seen, "rowset/1", 7)
    assert [f.key for f in store.findings("shop", confirmed=True)] == ["data/a"]


def test_a_partial_run_neither_confirms_nor_resolves(store: CheckStore, rig: Rig) -> None:
    checked(store, "1", A, whole=False)
    rig.later(DAY + 60)
    checked(store, "2", A)
    rig.later(DAY + 60)
    checked(store, "3", whole=False)
    still = findings_by_key(store)["data/a"]
    run = store.last_ended("shop")

    assert (still.state, still.confirmed_at) == (FindingState.OPEN, None)
    assert run is not None
    assert (run.state, run.missing_inputs) == ("PARTIAL", ("the live side was not read to its end",))


def test_a_resolved_finding_that_returns_is_unconfirmed(store: CheckStore, rig: Rig) -> None:
    checked(store, "1", A)
    rig.later(DAY + 60)
    checked(store, "2")
    gone = findings_by_key(store)
    checked(store, "3", A)
    back = findings_by_key(store)["data/a"]

    assert gone == {}
    assert back.confirmed_at is None
    assert back.proven_at is not None
    assert back.first_seen >= DAY * 1000


def test_a_lost_file_needs_a_second_pass_in_a_whole_run(store: CheckStore, rig: Rig) -> None:
    for name, whole in (("partial", False), ("whole", True)):
        run = store.begin("shop", name)
        store.store_findings(run, [LOST, A])
        ids = [f.id for f in store.findings("shop")]
        assert store.resolve(run, dict.fromkeys(ids, True)) == 1
        assert store.resolve(run, dict.fromkeys(ids, True)) == 0
        store.conclude(run, seen(run) if whole else seen(run, errors=("a fault",)))
        confirmed = {key for key, f in findings_by_key(store).items() if f.confirmed_at is not None}
        assert confirmed == ({"data/l"} if whole else set())


def test_repeated_and_late_steps_change_nothing(store: CheckStore, rig: Rig) -> None:
    run = store.begin("shop", "1")
    again = store.begin("shop", "1")
    store.store_findings(run, [A, A, LOST])
    store.store_findings(again, [A.model_copy(update={"size": 6})])
    first = store.conclude(run, seen(run))
    second = store.conclude(run, seen(run, live=0))
    store.store_findings(run, [B])

    assert run == again
    assert first == second
    assert {key: f.size for key, f in findings_by_key(store).items()} == {"data/a": 6, "data/l": None}
    assert store.resolve(run, {f.id: True for f in findings_by_key(store).values()}) == 0
    with pytest.raises(BadInput, match="checks shop"):
        store.begin("other", "1")


def test_an_accepted_finding_is_quiet_until_it_is_resolved(store: CheckStore, rig: Rig) -> None:
    checked(store, "1", A)
    [finding] = store.findings("shop")

    accepted = store.accept(finding.id, "ada", "put there by hand")
    checked(store, "2", A)
    hidden = store.findings("shop")
    checked(store, "3")
    with pytest.raises(UnknownFinding, match=r"no open finding .*; see: sexton check"):
        store.accept(finding.id, "ada", "again")

    assert (accepted.state, accepted.accepted_by) == (FindingState.ACCEPTED, "ada: put there by hand")
    assert hidden == []


def test_findings_with_odd_keys_are_paged_in_order(store: CheckStore, rig: Rig) -> None:
    keys = ["ü", "a+b", "n\nn", "x\x01", "nul\0", "\U0001f600", "'", "a" * 1_024]
    checked(store, "1", *(Discrepancy(type=FindingType.UNKNOWN_KIND, vault="disk", key=key) for key in keys))

    first = store.findings("shop", limit=5)
    rest = store.findings("shop", after=first[-1].id)

    assert {f.key for f in (*first, *rest)} == {key.replace("\0", "\ufffd") for key in keys}
    assert len(rest) == 3


def test_a_late_report_of_an_older_run_changes_nothing(owned: Owned) -> None:
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

    assert owned.open_findings(confirmed=True) == {"ORPHAN": {orphan.key}}
    assert owned.runs.conclude(old, seen(old)) == ("it was cut off, another began",)


def test_a_repaired_file_that_is_lost_again_is_found_again(owned: Owned) -> None:
    key = file_keys(20)[3]
    owned.write_live(*file_keys(20))
    (owned.root / key).unlink()
    owned.check()
    for is_checked_between in (True, False):
        owned.write_old(key)
        owned.sql("UPDATE {}finding SET state = 'REPAIRED'")
        if is_checked_between:
            assert owned.check().found == {}
        (owned.root / key).unlink()

        assert owned.check().confirmed == {"LOST": 1}


def test_check_cut_off_while_the_clock_was_ahead_is_due(rig: Rig, root: Path) -> None:
    """Else its row would count as a check that runs, until that time comes."""
    schedule = CheckSchedule(rig.db, 86_400)
    rig.insert("check_run", instance="shop", run="r", state=RunState.RUNNING, cutoff=rig.now())
    running = schedule.due()
    rig.set_year_ahead("check_run", "cutoff")

    assert (running, schedule.due()) == ((), ("shop",))
