"""Each object is counted and logged once, in the round that deleted it, with its size; sums end at a limit."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import BigInteger, select

from sexton.contract import MAX_BYTES, NewMark
from sexton.database.rows import BYTES, MOST_SUM, add_to_counters, as_rows, sum_of
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.status import overview
from sexton.kernel import crash_points
from sexton.marks.model import MAX_FAILURES, Ref
from sexton.operators.registry.markers import MarkerStore
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.sql.batches import add_to_round
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.rounds.sql.reports import read_counters
from sexton.storage.local.vault import LocalVault
from tests.integration.recycle.pipeline.refusing import refusing
from tests.servers.s3 import RunningS3
from tests.support.claims import token
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, GRACE, Rig, put, stores_of

KEYS = tuple(f"{n}.dat" for n in range(10))
DUE_SECONDS = 10_801


@pytest.fixture
def logging_rig(rig: Rig, root: Path) -> Rig:
    """A worker that writes its log of deletions into the vault."""
    for key in KEYS:
        put(root, key)
    rig.audit = ParquetAudit(places(rig), 400)
    rig.recycler = rig.recycler_of(rig.owner)
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=KEYS))
    rig.later(DUE_SECONDS)
    return rig


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
    rig.round(after=DUE_SECONDS)
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
    reports = [rig.round()]
    rig.sql("UPDATE {}mark SET failures = :failures", failures=MAX_FAILURES - 1)
    reports.append(rig.round())
    before = rig.count("tally", deleted=8)

    QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "access is denied")

    assert [report.deleted for report in reports] == [8, 0]
    assert [logged(rig, report.round)["deleted"] for report in reports] == [8, 0]
    assert before == rig.count("tally", deleted=8) == rig.count("mark_history", objects=8, bytes=80) == 1


def test_a_cut_off_round_is_logged_as_of_itself(logging_rig: Rig) -> None:
    rig = logging_rig
    with pytest.raises(Crash), crash_points.installed(crash_at("outcomes.recorded")):
        rig.round()
    first = MarkerStore(rig.db).last_round("shop")
    second = rig.round(after=DAY)
    report = rig.rounds.reports.report(first)

    assert (counts(report), report.size_unknown) == ((10, 0, 100), 0)
    assert (second.deleted, second.removed) == (0, 1)
    assert (logged(rig, first), logged(rig, second.round)) == ({"deleted": 10}, {})


@pytest.mark.parametrize(("stated", "expected"), [(1_001, (1_001, 0)), (0, (0, 3))])
def test_sizes_of_keys_are_stated_or_unknown(
    cold_rig: Rig, s3_server: RunningS3, capsys: pytest.CaptureFixture[str], stated: int, expected: tuple[int, int]
) -> None:
    bucket = cold_rig.registry.vault("shop", "cold").location
    for key in KEYS[:3]:
        s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"x" * 10)
    cold_rig.mark("dropped", NewMark(id="m", vault="cold", keys=KEYS[:3], bytes=stated))

    report = cold_rig.round(after=DUE_SECONDS)
    listed = run(cold_rig, capsys, "round", "list").out
    shown = run(cold_rig, capsys, "round", "show", str(report.round)).out

    assert (report.deleted, report.bytes_freed) == (3, 0)
    assert (report.bytes_estimated, report.size_unknown) == expected
    assert [kind.bytes for kind in report.kinds] == [stated]
    assert ("unknown" in listed, "1001 B" in listed, "0 B" in listed) == (not stated, bool(stated), False)
    assert ("unknown" in shown, "1001 B" in shown) == (not stated, bool(stated))


MARKS = MOST_SUM // MAX_BYTES + 10
"""More marks of the largest size than a sum has place for, so more than 4,000."""


@pytest.fixture
def cold_rig(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Rig]:
    """An instance with a vault in S3, where most sizes are those that the owner states."""
    made = Rig(database_url, endpoint_url=s3_server.endpoint_url).instance()
    made.s3(bucket)
    yield made
    made.db.close()


def mark(rig: Rig, name: str, count: int) -> None:
    rows = [NewMark(id=f"{name}{n}", vault="cold", keys=(f"r/{name}{n}",), bytes=MAX_BYTES) for n in range(count)]
    rig.mark("dropped", *rows)
    rig.later(10_801)


@pytest.mark.slow
def test_plans_and_status_end_sums_at_the_largest(cold_rig: Rig) -> None:
    mark(cold_rig, "a", 2 * MARKS)

    [of_instance] = overview(cold_rig.db, stores_of(cold_rig.db).insight, cold_rig.policy, 1).instances
    [planned] = cold_rig.plan().kinds

    assert [k.due_bytes for k in of_instance.kinds if k.kind == "dropped"] == [MOST_SUM]
    assert planned.bytes == planned.unheld.bytes == MOST_SUM


def test_counts_of_a_round_end_at_the_largest_sum(rig: Rig) -> None:
    lease = token(rig)
    counts = {("dropped", "cold"): {"bytes_freed": MOST_SUM - 1, "bytes_estimated": 2**70, "deleted": 1}}

    with rig.db.write() as c:
        for _ in range(2):
            add_to_round(rig.db, c, lease.round, counts)
        sums = c.execute(select(rig.db.t.tally)).one()

    assert (sums.bytes_freed, sums.bytes_estimated, sums.deleted) == (MOST_SUM, MOST_SUM, 2)
    assert rig.stores.outcomes.deleted_so_far(lease, "dropped")["bytes"] == MOST_SUM


def test_counters_end_at_the_largest_sum(cold_rig: Rig) -> None:
    mark(cold_rig, "a", 20)
    with cold_rig.db.write() as c:
        add_to_counters(cold_rig.db, c, "shop", {(BYTES, "dropped"): 2**70})

    report = cold_rig.round()

    with cold_rig.db.read() as c:
        assert read_counters(cold_rig.db, c)["shop", BYTES, "dropped"] == MOST_SUM
    assert (report.state, report.bytes_estimated) == ("SUCCEEDED", 20 * MAX_BYTES)
    figures = FigureStore(cold_rig.db, stores_of(cold_rig.db).insight, cold_rig.policy, 3_600).read()
    assert figures.unreadable == 0


def test_sums_are_exact_up_to_the_largest(rig: Rig) -> None:
    for sizes in [(), (0,), (5, 2**20, 2**50 + 3), (2**50,) * 9_000, (2**63 - 1,) * 3]:
        rows = as_rows([{"size": size} for size in sizes], size=BigInteger())

        with rig.db.read() as c:
            assert c.execute(select(sum_of(rows.c.size))).scalar_one() == min(sum(sizes), MOST_SUM)
