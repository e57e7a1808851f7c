"""Rows of checks, and of findings that were gone, are deleted after 400 days."""

from sexton.check.sql.conclusion import RUN_DAYS
from sexton.contract import NewMark
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY

LONG = (RUN_DAYS + 1) * DAY


def test_old_runs_are_deleted_with_findings_that_were_gone(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    (owned.root / file_keys(20)[3]).unlink()
    (owned.root / file_keys(20)[5]).unlink()
    owned.check()
    for finding in owned.runs.findings("shop"):
        if finding.key == file_keys(20)[5]:
            owned.runs.accept(finding.id, "ann", "known")
    owned.write_old(file_keys(20)[3])
    owned.check()
    assert (owned.count("check_run"), owned.count("finding", state="GONE")) == (2, 1)
    owned.later(LONG)
    last = owned.check().run.id

    assert owned.count("check_run") == owned.count("check_run", id=last) == 1
    assert owned.count("finding") == owned.count("finding", state="ACCEPTED") == 1


def test_the_newest_whole_run_stays(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    whole = owned.check()
    assert whole.whole
    owned.later(LONG)
    for name in ("one", "two", "three"):
        owned.runs.begin("shop", name)  # each ends the one before now, as PARTIAL
    owned.later(LONG)
    owned.runs.begin("shop", "last")
    owned.runs.forget_old("shop")

    assert owned.count("check_run", id=whole.run.id) == 1
    assert owned.count("check_run", run="one") == owned.count("check_run", run="two") == 0
    assert owned.count("check_run") == 3


def test_a_baseline_older_than_the_rounds_is_forgotten(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    garbage = [f"g/{n}.dat" for n in range(200)]
    for key in garbage:
        owned.write_old(key)
    owned.mark("dropped", *(NewMark(id=f"g{n}", vault="disk", keys=(key,)) for n, key in enumerate(garbage)))
    assert owned.check().whole
    owned.later(10_801)
    assert owned.round().removed == 200
    owned.later(LONG)
    owned.round()
    owned.round()
    assert owned.count("tally") == 0

    assert owned.check().whole


def test_younger_runs_stay(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    owned.check()
    owned.later((RUN_DAYS - 1) * DAY)
    owned.check()

    assert owned.count("check_run") == 2
