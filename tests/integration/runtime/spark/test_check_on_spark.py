"""A check on Spark finds what a check in one process finds, and resumes after an interruption."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sexton.check.model import CheckReport, CheckRequest, RunState
from sexton.contract import NewMark
from sexton.runtime.spark import compare, reconcile
from sexton.runtime.spark.compare import SparkComparison
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.check.test_inventories import LOST, ORPHAN, RESIZED, UNKNOWN, Lake, lake
from tests.support.rig import Rig

pytestmark = pytest.mark.slow

__all__ = ["lake"]  # a fixture
OnIt = Callable[[Rig], SparkComparison]
ODD = [
    "data/ü/r1_0.dat",
    "data/t1/a b+c%20d_0.dat",
    "data/t1/'quoted\"_0.dat",
    "data/t1/line\nbreak_0.dat",
    "data/t1/\U0001f600_0.dat",
    "data/t1/..._0.dat",
    "x" * 200,
]


def finding_rows(owned: Owned) -> set[tuple[Any, ...]]:
    return {
        (f.type, f.vault, f.key, f.expected, f.size, f.written, f.record, f.confirmed_at is not None)
        for f in owned.runs.findings("shop", limit=10_000)
    }


def figures(report: CheckReport) -> list[object]:
    """Return what a check has counted."""
    seen = report.run.evidence
    assert seen is not None
    return [seen.live, seen.prefixes, seen.objects, [(i.vault, i.objects, i.young) for i in seen.listings]]


def world(owned: Owned) -> None:
    """Make two vaults with something of every kind."""
    owned.write_live(*file_keys(60))
    owned.write_live(*ODD)
    owned.live_rows(("data/whole/", None), ("data/empty/", None))
    owned.live_rows(("data/slash/r_0.dat", 10), ("data/enc%6Fded/r_0.dat", 10))
    for key in ("data/whole/x_0.dat", "data/whole/in/y_0.dat", "data/slash/r_0.dat", "data/encoded/r_0.dat"):
        owned.write_old(key)
    (owned.root / file_keys(60)[7]).unlink()
    (owned.root / ODD[1]).unlink()
    owned.write_old(file_keys(60)[8], 11)
    owned.write_old(ODD[3], 12)
    for key in ("data/t9/gone_0.dat", "data/t9/marked_0.dat", "data/t10/m_0.dat", "data/t9/odd ü_0.dat", "tmp/u.tmp"):
        owned.write_old(key)
    owned.write_old("data/t9/young_0.dat", age=0)
    owned.mark("dropped", NewMark(id="d", vault="disk", keys=("data/t9/marked_0.dat",)))
    owned.mark("dropped", NewMark(id="t10", vault="disk", prefix="data/t10/"))
    root, owned.root = owned.root, owned.local(owned.root.parent / "other", "other")
    owned.write_old("data/t9/gone_0.dat")
    owned.write_old(file_keys(60)[0])
    owned.root = root
    owned.live_rows(("data/t9/gone_0.dat", 10), vault="other")


def test_k01_to_k09_spark_finds_what_one_process_finds(
    owned: Owned, on_spark: OnIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(owned)
    here = owned.check()
    by_hand = finding_rows(owned)
    for most_differing in (reconcile.MOST_DIFFERING, 0):  # 0: everything is joined
        monkeypatch.setattr(reconcile, "MOST_DIFFERING", most_differing)
        owned.sql("DELETE FROM {}finding")
        there = owned.check(on_spark(owned))

        assert finding_rows(owned) == by_hand
        assert (there.run.state, there.found, there.confirmed) == (RunState.WHOLE, here.found, here.confirmed)
        assert figures(there) == figures(here)
    assert {(t, k) for t, _, k, *_ in by_hand} == {
        ("LOST", file_keys(60)[7]),
        ("LOST", ODD[1]),
        ("LOST", "data/empty/"),
        ("SIZE_MISMATCH", file_keys(60)[8]),
        ("SIZE_MISMATCH", ODD[3]),
        ("ORPHAN", "data/t9/gone_0.dat"),
        ("ORPHAN", file_keys(60)[0]),
        ("UNKNOWN_KIND", "data/t9/odd ü_0.dat"),
        ("UNKNOWN_KIND", "tmp/u.tmp"),
    }


def test_spark_reads_inventories_as_one_process_does(lake: Lake, on_spark: OnIt) -> None:
    lake.remove(LOST)
    lake.put(ORPHAN, UNKNOWN, RESIZED, body=b"longer than ten")
    lake.report(age=3_600, form="CSV")
    here = lake.check()
    by_hand = finding_rows(lake)
    lake.sql("DELETE FROM {}finding")
    there = lake.check(on_spark(lake))

    assert len(by_hand) == 4
    assert finding_rows(lake) == by_hand
    assert figures(there) == figures(here)
    assert [report.run.state for report in (here, there)] == [RunState.WHOLE] * 2


def test_k10_an_attempt_that_takes_over_lists_nothing_again(
    owned: Owned, on_spark: OnIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tablet in range(6):
        owned.write_live(*file_keys(5, f"t{tablet}"))
    owned.write_old("data/t9/r7_0.dat")
    (owned.root / file_keys(5, "t3")[2]).unlink()
    monkeypatch.setattr(compare, "PASS_PARTS", 3)
    store_progress, progress = owned.runs.store_progress, []

    def dies(run: Any, told: Any) -> None:
        store_progress(run, told)
        progress.append(told)
        if len(progress) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(owned.runs, "store_progress", dies)
    with pytest.raises(KeyboardInterrupt):
        owned.check(on_spark(owned), run="one")
    report = owned.check(on_spark(owned), run="one")
    listed = [p for one in progress[-1]["passes"] for p in one["parts"]]

    assert len(listed) == len(set(listed)) == len(progress[-1]["parts"]) > 6
    assert report.whole
    assert owned.open_findings() == {"LOST": {file_keys(5, "t3")[2]}, "ORPHAN": {"data/t9/r7_0.dat"}}


def test_k06_an_unlistable_vault_confirms_nothing_on_spark(owned: Owned, on_spark: OnIt) -> None:
    owned.write_live(*file_keys(20))
    owned.write_old("data/t9/r7_0.dat")
    how = on_spark(owned)
    begun = how._begin_or_resume

    def unmounted(*given: Any) -> Any:
        progress = begun(*given)
        (owned.root / "_sexton/vault.json").rename(owned.root / "away.json")
        return progress

    how._begin_or_resume = unmounted  # type: ignore[method-assign]
    report = owned.check(how)

    assert report.run.state is RunState.PARTIAL
    assert any("NO_MARKER" in lack for lack in report.run.missing_inputs)
    assert "LOST" not in owned.open_findings()


def test_a_cancelled_check_ends_before_it_returns(
    owned: Owned, on_spark: OnIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tablet in range(20):
        owned.write_live(*file_keys(50, f"t{tablet}"))
    order = owned.checker.begin(CheckRequest(instance="shop"), "one").order
    beats = 0

    def heartbeat() -> None:
        nonlocal beats
        beats += 1
        if beats > 3:
            raise TimeoutError("cancelled")

    monkeypatch.setattr("sexton.runtime.spark.session.LOOK_SECONDS", 0.05)
    with pytest.raises(TimeoutError, match="cancelled"):
        owned.checker.compare(on_spark(owned), order, heartbeat)

    assert owned.runs.last_ended("shop") is None
    assert not [t for t in threading.enumerate() if t.name.startswith("spark")]
