"""A round writes its deletes to the audit before it forgets them, once, and a crash loses no row."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.operators.registry.markers import MarkerStore
from sexton.recycle.audit.naming import DAY_MS
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.servers.s3 import RunningS3
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig, listing, put


@pytest.fixture
def again(rig: Rig, s3_server: RunningS3) -> Iterator[Callable[[], Rig]]:
    """Return a new worker of the rig's database, one that writes its audit into the vaults."""
    made: list[Rig] = []

    def start() -> Rig:
        places = Rig(rig.url, endpoint_url=s3_server.endpoint_url)
        made.append(places)
        made.append(Rig(rig.url, endpoint_url=s3_server.endpoint_url, audit=ParquetAudit(_places(places), 400)))
        return made[-1]

    yield start
    for one in made:
        one.db.close()


def _places(rig: Rig) -> AuditLocations:
    return AuditLocations(rig.vaults, rig.registry.vaults)


def audit_rows(rig: Rig, round_: int) -> list[tuple[str, str, str]]:
    """Return (vault, key, outcome) of what the audit says of one round."""
    return sorted((r.vault, r.key, r.outcome) for r in AuditReader(rig.db, _places(rig)).rows(round_))


@pytest.mark.slow
def test_every_object_of_a_round_is_audited_with_its_outcome(
    again: Callable[[], Rig], tmp_path: Path, bucket: str, s3_server: RunningS3
) -> None:
    worker = again()
    root = worker.local(tmp_path / "v")
    worker.s3(bucket)
    put(root, "data/é.dat")
    put(root, "data/9/a.dat")
    s3_server.client().put_object(Bucket=bucket, Key="data/cold.dat", Body=b"x")
    worker.mark("dropped", NewMark(id="k", vault="disk", keys=("data/é.dat",), bytes=10))
    worker.mark("dropped", NewMark(id="p", vault="disk", prefix="data/9/"))
    worker.mark("dropped", NewMark(id="c", vault="cold", keys=("data/cold.dat",)))
    worker.later(10_801)

    report = worker.round()

    assert audit_rows(worker, report.round) == [
        ("cold", "data/cold.dat", "deleted"),
        ("disk", "data/9/a.dat", "deleted"),
        ("disk", "data/é.dat", "deleted"),
    ]


def test_a_crash_after_the_audit_write_loses_no_row(again: Callable[[], Rig], tmp_path: Path) -> None:
    worker = again()
    worker.drop(worker.local(tmp_path / "v"), "data/a.dat", "k", later=10_801)

    with pytest.raises(Crash), crash_points.installed(crash_at("audit.written")):
        worker.round()
    first = MarkerStore(worker.db).last_round("shop")
    before = audit_rows(worker, first)
    worker.later(61)
    report = again().round()

    assert before == audit_rows(worker, first) == [("disk", "data/a.dat", "deleted")]
    assert audit_rows(worker, report.round) == []
    assert worker.row("dropped", "k") is None


def test_records_stay_while_their_audit_cannot_be_written(again: Callable[[], Rig], tmp_path: Path) -> None:
    worker = again()
    root = worker.local(tmp_path / "v")
    worker.drop(root, "data/a.dat", "k", later=10_801)
    in_the_way = root / "_sexton" / "audit"
    in_the_way.write_bytes(b"a file where the folder should be")

    kept = worker.round()
    record = worker.row("dropped", "k")
    in_the_way.unlink()
    worker.later(3_601)
    done = worker.round()

    assert (kept.removed, record.state, listing(root)) == (0, "CLAIMED", {})
    assert kept.faults == 1
    assert (done.removed, audit_rows(worker, kept.round)) == (1, [("disk", "data/a.dat", "deleted")])


def test_the_audit_outlives_the_history_in_sql(again: Callable[[], Rig], tmp_path: Path) -> None:
    worker = again()
    worker.drop(worker.local(tmp_path / "v"), "data/a.dat", "k", later=10_801)
    done = worker.round()

    worker.later(31 * 86_400)
    worker.round()
    with worker.db.read() as c:
        now = worker.db.now(c)
    found = list(AuditReader(worker.db, _places(worker)).search("shop", {"data/a.dat"}, 0, now))

    assert worker.count("mark_history") == 0
    assert [(r.round, r.id, r.outcome) for r in found] == [(done.round, "k", "deleted")]
    assert now - found[0].at >= 31 * DAY_MS
