"""A check stores a bounded number of LOST findings, counts all, and ends none that it may have seen."""

import pytest

from sexton.check import policy
from sexton.check.model import CheckReport, RunState
from tests.integration.check.conftest import Owned, file_keys

STORED = 5
NOTE = "{} live rows name no object, and 5 or more of them are stored as findings"


@pytest.fixture
def few_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MOST_LOST", STORED)


def counted(report: CheckReport) -> tuple[str, dict[str, int], bool]:
    """Return the run's state, what it counted, and whether a note says so."""
    evidence = report.run.evidence
    assert evidence is not None
    noted = [note for note in evidence.notes if "name no object" in note]
    return report.run.state, dict(evidence.found), noted == [NOTE.format(sum(evidence.found.values()))]


@pytest.mark.usefixtures("few_stored")
def test_a_view_of_rows_without_objects_fills_no_table(owned: Owned) -> None:
    owned.write_live(*file_keys(60))
    owned.live_rows(*((f"data/none/r{n}_0.dat", 10) for n in range(40)))

    report = owned.check()

    assert counted(report) == (RunState.WHOLE, {"LOST": 40}, True)
    assert (owned.count("finding"), report.confirmed) == (STORED, {"LOST": STORED})


def test_findings_of_earlier_runs_stay_open(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = file_keys(60)
    owned.write_live(*keys)
    for key in keys[:12]:
        (owned.root / key).unlink()
    first = owned.check()
    with monkeypatch.context() as m:
        m.setattr(policy, "MOST_LOST", STORED)
        second = owned.check()
    still_open = owned.open_findings()
    for key in keys[:12]:
        owned.write_old(key)
    owned.check()

    assert counted(first) == (RunState.WHOLE, {"LOST": 12}, False)
    assert counted(second) == (RunState.WHOLE, {"LOST": 12}, True)
    assert still_open == {"LOST": set(keys[:12])}
    assert owned.open_findings() == {}
