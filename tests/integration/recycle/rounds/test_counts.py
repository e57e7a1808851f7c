"""Each object is counted and logged once: in the round that deleted it, with its size where anybody knows it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.marks.model import Ref
from sexton.operators.registry.markers import MarkerStore
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from tests.integration.recycle.pipeline.refusing import refusing
from tests.servers.s3 import RunningS3
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, GRACE, Rig, put

KEYS = tuple(f"{n}.dat" for n in range(10))
DUE_SECONDS = 10_801


@pytest.fixture
def logging_rig(rig: Rig, root: Path) -> Iterator[Rig]:
    """A worker that writes its log of deletions into the vault."""
    for key in KEYS:
        put(root, key)
    worker = Rig(rig.url, audit=ParquetAudit(places(rig), 400))
    worker.mark("dropped", NewMark(id="m", vault="disk", keys=KEYS))
    worker.later(DUE_SECONDS)
    yield worker
    worker.db.close()


def places(rig: Rig) -> AuditLocations:
    return AuditLocations(rig.vaults, rig.registry.vaults)


def logged(rig: Rig, round_: int) -> Counter[str]:
    """Return how many objects of a round the log of deletions has, by outcome."""
    return Counter(row.outcome for row in AuditReader(rig.db, places(rig)).rows(round_))


def counts(report: RoundReport) -> tuple[int, int, int]:
    return report.deleted, report.failed, report.bytes_freed


def test_an_object_counts_in_the_round_that_deleted_it(logging_rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, reports = logging_rig, []
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing("8.dat", "9.dat"))
        reports += [rig.round(), rig.round()]
    reports.append(rig.round())

    assert [counts(report) for report in reports] == [(8, 2, 80), (0, 2, 0), (2, 0, 20)]
    assert [logged(rig, report.round) for report in reports] == [
        {"deleted": 8, "failed": 2},
        {"failed": 2},
        {"deleted": 2},
    ]
    assert rig.count("mark_history", objects=10, bytes=100) == 1


def test_a_second_pass_that_fails_counts_and_logs_once(
    logging_rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, reports = logging_rig, []
    put(tmp_path / "v", "t/first.dat")
    rig.mark("dropped", NewMark(id="p", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    rig.round()
    for key in ("t/a.dat", "t/b.dat"):
        put(tmp_path / "v", key)
    rig.later(GRACE + 1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing("t/b.dat"))
        reports.append(rig.round())
    reports.append(rig.round())

    assert [report.deleted for report in reports] == [1, 1]
    assert [logged(rig, report.round)["deleted"] for report in reports] == [1, 1]


def test_keys_of_a_discarded_mark_are_in_their_rounds(logging_rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = logging_rig
    monkeypatch.setattr(LocalVault, "delete", refusing("8.dat", "9.dat"))
    reports = [rig.round() for _ in range(8)]
    before = rig.count("tally", deleted=8)

    QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "access is denied")

    assert [report.deleted for report in reports] == [8, 0, 0, 0, 0, 0, 0, 0]
    assert [logged(rig, report.round)["deleted"] for report in reports] == [8, 0, 0, 0, 0, 0, 0, 0]
    assert before == rig.count("tally", deleted=8) == rig.count("mark_history", objects=8, bytes=80) == 1


def test_a_cut_off_round_is_logged_as_of_itself(logging_rig: Rig) -> None:
    rig = logging_rig
    with pytest.raises(Crash), crash_points.installed(crash_at("outcomes.recorded")):
        rig.round()
    first = MarkerStore(rig.db).last_round("shop")
    rig.later(DAY)
    second = rig.round()
    report = rig.rounds.reports.report(first)

    assert (counts(report), report.size_unknown) == ((10, 0, 100), 0)
    assert (second.deleted, second.removed) == (0, 1)
    assert (logged(rig, first), logged(rig, second.round)) == ({"deleted": 10}, {})


@pytest.mark.parametrize(("stated", "expected"), [(1_001, (1_001, 0)), (0, (0, 3))])
def test_sizes_of_keys_are_stated_or_unknown(
    rig: Rig,
    bucket: str,
    s3_server: RunningS3,
    capsys: pytest.CaptureFixture[str],
    stated: int,
    expected: tuple[int, int],
) -> None:
    worker = Rig(rig.url, endpoint_url=s3_server.endpoint_url)
    worker.s3(bucket)
    for key in KEYS[:3]:
        s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"x" * 10)
    worker.mark("dropped", NewMark(id="m", vault="cold", keys=KEYS[:3], bytes=stated))
    worker.later(DUE_SECONDS)

    report = worker.round()
    listed = run(rig, capsys, "round", "list").out
    shown = run(rig, capsys, "round", "show", str(report.round)).out
    worker.db.close()

    assert (report.deleted, report.bytes_freed) == (3, 0)
    assert (report.bytes_estimated, report.size_unknown) == expected
    assert [kind.bytes for kind in report.kinds] == [stated]
    assert ("unknown" in listed, "1001 B" in listed, "0 B" in listed) == (not stated, bool(stated), False)
    assert ("unknown" in shown, "1001 B" in shown) == (not stated, bool(stated))
