"""Very many files, marks and LOST findings are checked in parts, each once; old rows are deleted after 400 days."""

import resource
from typing import Any

import pytest

from sexton.check import policy
from sexton.check.checker import Checker
from sexton.check.model import CheckReport, CheckSettings, RunState
from sexton.check.sql.findings import RUN_DAYS
from sexton.check.sql.live_side import mark_parts, read_marks
from sexton.contract import NewMark
from sexton.marks.model import MarkState, Reason
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.check.planted_faults import plant
from tests.support.rig import DAY

STORED = 5
NOTE = "{} live rows name no object, and 5 or more of them are stored as findings"


def counted(report: CheckReport) -> tuple[str, dict[str, int], bool]:
    """Return the run's state, what it counted, and whether a note says so."""
    evidence = report.run.evidence
    assert evidence is not None
    noted = [note for note in evidence.notes if "name no object" in note]
    return report.run.state, dict(evidence.found), noted == [NOTE.format(sum(evidence.found.values()))]


def test_a_view_of_rows_without_objects_fills_no_table(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MOST_LOST", STORED)
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


AFTER_KEPT_DAYS = (RUN_DAYS + 1) * DAY


def test_only_old_runs_are_deleted_with_findings_that_were_gone(owned: Owned) -> None:
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
    owned.check(after=(RUN_DAYS - 1) * DAY)
    assert owned.count("check_run") == 3
    last = owned.check(after=AFTER_KEPT_DAYS).run.id

    assert owned.count("check_run") == owned.count("check_run", id=last) == 1
    assert owned.count("finding") == owned.count("finding", state="ACCEPTED") == 1


def test_the_newest_whole_run_stays(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    whole = owned.check()
    assert whole.whole
    owned.later(AFTER_KEPT_DAYS)
    for name in ("one", "two", "three"):
        owned.runs.begin("shop", name)  # each ends the one before now, as PARTIAL
    owned.later(AFTER_KEPT_DAYS)
    owned.runs.begin("shop", "last")
    owned.runs.forget_old("shop")

    assert owned.count("check_run", id=whole.run.id) == 1
    assert owned.count("check_run", run="one") == owned.count("check_run", run="two") == 0
    assert owned.count("check_run") == 3


@pytest.mark.slow
def test_a_baseline_older_than_the_rounds_is_forgotten(owned: Owned) -> None:
    owned.write_live(*file_keys(20))
    garbage = [f"g/{n}.dat" for n in range(200)]
    for key in garbage:
        owned.write_old(key)
    owned.mark("dropped", *(NewMark(id=f"g{n}", vault="disk", keys=(key,)) for n, key in enumerate(garbage)))
    assert owned.check().whole
    assert owned.round(after=10_801).removed == 200
    owned.round(after=AFTER_KEPT_DAYS)
    owned.round()
    assert owned.count("tally") == 0

    assert owned.check().whole


LONG = [pytest.mark.soak, pytest.mark.timeout(1_800)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objects", "faults"), [(10_000, 250), pytest.param(1_000_000, 1_000, marks=LONG)], ids=["10k", "1M"]
)
def test_findings_are_exactly_the_planted_faults(owned: Owned, objects: int, faults: int) -> None:
    planted = plant(owned, objects, faults)
    settings = CheckSettings(grace_seconds=DAY, heavy_objects=2 * objects)  # one process compares them all
    owned.checker = Checker(owned.check_ports, settings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = owned.check()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
    print(f"{objects:,} objects: memory grew by {grown:.0f} MiB")

    assert report.whole
    assert owned.open_findings() == {
        "LOST": planted.lost,
        "SIZE_MISMATCH": planted.mismatched,
        "ORPHAN": planted.orphans,
    }
    assert report.confirmed == {"LOST": faults, "SIZE_MISMATCH": faults}
    assert grown < 200


CLAIMED = {"state": MarkState.CLAIMED, "batch": 1, "claimed_at": 0}
QUARANTINED = {"quarantined_reason": Reason.BAD_KEY}
STATES: dict[str, dict[str, Any]] = {
    "fenced": {"state": MarkState.FENCED},
    "claimed": CLAIMED,
    "quarantined": QUARANTINED,
    "claimed-and-quarantined": {**CLAIMED, **QUARANTINED},
}


def test_the_parts_hold_each_mark_once(owned: Owned) -> None:
    ids = [*STATES, *(f"waiting-{n}" for n in range(5))]
    for kind in ("compacted", "dropped"):
        owned.mark(kind, *(NewMark(id=id_, vault="disk", keys=(f"data/{kind}/{id_}.dat",)) for id_ in ids))
    for id_, values in STATES.items():
        owned.update("mark", {"id": id_}, **values)
    with owned.db.snapshot() as c:
        parts = mark_parts(owned.db, c, "shop", 5)
        pages = {part: read_marks(owned.db, c, "shop", part, ["disk"]) for part in parts}
        read = {part: [e.record for page in pages[part] for e in page] for part in parts}

    records = sorted(f"{kind}/{id_}" for kind in ("compacted", "dropped") for id_ in ids)
    assert sorted(record for part in read.values() for record in part) == records
    assert [len(part) for part in read.values()] == [5, 5, 2, 4, 2]
