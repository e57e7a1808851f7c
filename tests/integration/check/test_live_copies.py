"""A check concludes nothing from a live view that is older than its listing (N1)."""

import threading

import pytest

from sexton.check.model import RunState
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY
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
    copied.later(2 * DAY)
    second = copied.check()

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
    refreshed_at = copied.live_side.as_of("shop")
    copied.later(60)
    with copied.live_side.snapshot("shop") as moment:
        read_at = moment.at

    assert read_at == refreshed_at
