"""A check concludes nothing from a live view that is older than its listing, incomplete or wrong (N1, N3)."""

import threading

import pytest

from sexton.check.model import RunState
from sexton.contract import NewMark
from sexton.insight.status import overview
from sexton.interfaces.cli.doctor.stored import examine_work
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY, service_of, stores_of
from tests.support.transactions import owner_write


def make_copy(owned: Owned) -> None:
    """Replace the view by a table that a job fills, with the instant of its last refresh."""
    with owner_write(owned.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql(
            "CREATE TABLE copy (kind text, id text, vault text, key text, bytes bigint, as_of timestamptz)"
        )
        c.exec_driver_sql("CREATE TABLE sexton_live AS SELECT * FROM copy")


def refresh(owned: Owned) -> None:
    """Fill the copy from the owner's records, as its job does."""
    with owner_write(owned.db) as c:
        c.exec_driver_sql("DELETE FROM sexton_live")
        c.exec_driver_sql("INSERT INTO sexton_live SELECT kind, id, vault, key, bytes, sexton.now() FROM file")


@pytest.fixture
def copied(owned: Owned) -> Owned:
    make_copy(owned)
    owned.write_live(*file_keys(20))
    refresh(owned)
    return owned


def test_n1_current_files_of_a_dead_copy_are_no_orphans(copied: Owned) -> None:
    copied.later(2 * DAY)  # the job is dead; the owner goes on and writes new files
    copied.write_live("data/t2/n1_0.dat", "data/t2/n2_0.dat")
    first = copied.check()
    second = copied.check(after=2 * DAY)

    assert (first.run.state, second.run.state) == (RunState.PARTIAL, RunState.PARTIAL)
    assert (first.found, second.found, second.confirmed) == ({}, {}, {})
    assert "was last true" in second.run.missing_inputs[0]


def test_n1_a_check_waits_for_a_refresh_after_its_listing(copied: Owned) -> None:
    copied.write_old("data/t9/r7_0.dat")
    done = threading.Event()

    def job() -> None:
        while not done.wait(0.1):
            refresh(copied)

    thread = threading.Thread(target=job)
    thread.start()
    try:
        report = copied.check()
    finally:
        done.set()
        thread.join()

    assert (report.run.state, report.found) == (RunState.WHOLE, {"ORPHAN": 1})


@pytest.mark.slow
def test_n1_a_listing_that_no_refresh_follows_proves_nothing(copied: Owned) -> None:
    copied.write_old("data/t9/r7_0.dat")
    copied.live_side._owner._max_age_seconds = 3

    report = copied.check()

    assert (report.run.state, report.found) == (RunState.PARTIAL, {})


def test_n1_a_copy_is_read_as_of_its_last_refresh(copied: Owned) -> None:
    refreshed_at = copied.live_side.as_of("shop", lambda: None)
    copied.later(60)
    with copied.live_side.snapshot("shop") as moment:
        read_at = moment.at

    assert read_at == refreshed_at


@pytest.fixture
def shown(owned: Owned) -> Owned:
    """An owner with one live row per prefix, as long as its objects exist."""
    for tablet in ("t1", "t2"):
        for n in range(3):
            owned.write_old(f"data/{tablet}/r{n}_0.dat")
        owned.live_rows((f"data/{tablet}/", None))
    return owned


def test_n3_a_live_prefix_without_objects_is_lost(shown: Owned) -> None:
    before = shown.check()
    for path in (shown.root / "data/t1").iterdir():
        path.unlink()
    after = shown.check()

    assert (before.run.state, before.found) == (RunState.WHOLE, {})
    assert (after.found, after.confirmed) == ({"LOST": 1}, {"LOST": 1})
    assert shown.open_findings(confirmed=True) == {"LOST": {"data/t1/"}}
    assert shown.repairs.lost("shop").kept == 1
    shown.write_old("data/t1/back_0.dat")
    assert shown.check().found == {}


def test_n3_report_status_doctor_and_metrics_say_what_is_unseen(shown: Owned) -> None:
    (shown.root / "data/t1/r0_0.dat").unlink()

    report = shown.check()
    stores = stores_of(shown.db)
    figures = stores.figures(shown.policy, (3_600, 1_800, 313)).read()
    status = overview(shown.db, stores.insight, shown.policy, 1)
    doctor = {finding.about: finding for finding in examine_work(service_of(shown.db))}

    assert report.found == {}
    assert report.run.evidence is not None
    assert any("inside a prefix cannot be detected" in note for note in report.run.evidence.notes)
    assert any("max_delete_fraction is not in force" in note for note in report.run.evidence.notes)
    assert (figures.instances[0].live_prefixes, status.instances[0].checked.prefixes) == (2, 2)
    assert doctor["live objects"].state == "WARN"
    assert "loss inside a prefix cannot be detected" in doctor["live objects"].detail


def test_n3_marks_by_prefix_are_no_live_prefixes(owned: Owned) -> None:
    owned.write_live("data/t1/r0_0.dat")
    owned.mark("dropped", NewMark(id="t9", vault="disk", prefix="data/t9/"))

    report = owned.check()

    assert (report.found, report.run.evidence.notes if report.run.evidence else None) == ({}, ())


def test_rows_count_no_more_than_the_vaults_objects(owned: Owned) -> None:
    owned.write_live(*file_keys(5))
    owned.live_rows(*((key, 10) for key in file_keys(40)), vault="elsewhere")
    before = owned.owner.live_objects("shop")
    owned.write_old("data/t9/orphan_0.dat")
    assert owned.check().run.state is RunState.WHOLE
    owned.live_rows(*((key, 10) for key in file_keys(400, "t2")))

    assert (before, owned.owner.live_objects("shop")) == (5, 6)  # as many as the check listed
