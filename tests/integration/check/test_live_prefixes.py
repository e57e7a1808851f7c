"""A check of live prefixes says what it cannot see, and finds a prefix that lost all its objects (N3)."""

import pytest

from sexton.check.model import RunState
from sexton.contract import NewMark
from sexton.insight.status import overview
from sexton.interfaces.cli.doctor.stored import examine_work
from tests.integration.check.conftest import Owned
from tests.support.rig import stores_of


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


def test_n3_a_check_of_prefixes_says_what_it_cannot_see(shown: Owned) -> None:
    (shown.root / "data/t1/r0_0.dat").unlink()

    report = shown.check()

    assert report.found == {}
    assert report.run.evidence is not None
    assert any("inside a prefix cannot be detected" in note for note in report.run.evidence.notes)
    assert any("max_delete_fraction is not in force" in note for note in report.run.evidence.notes)


def test_n3_marks_by_prefix_are_no_live_prefixes(owned: Owned) -> None:
    owned.write_live("data/t1/r0_0.dat")
    owned.mark("dropped", NewMark(id="t9", vault="disk", prefix="data/t9/"))

    report = owned.check()

    assert (report.found, report.run.evidence.notes if report.run.evidence else None) == ({}, ())


def test_n3_status_doctor_and_metrics_say_it(shown: Owned) -> None:
    shown.check()
    stores = stores_of(shown.db)
    figures = stores.figures(shown.policy, (3_600, 1_800, 313)).read()
    status = overview(shown.db, stores.insight, shown.policy, 1)
    doctor = {finding.about: finding for finding in examine_work(stores)}

    assert (figures.instances[0].live_prefixes, status.instances[0].checked.prefixes) == (2, 2)
    assert doctor["live objects"].state == "WARN"
    assert "loss inside a prefix cannot be detected" in doctor["live objects"].detail
