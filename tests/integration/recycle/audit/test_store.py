"""Audit rows are written once, before a round forgets, read back completely, and deleted after their retention."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import insert

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput
from sexton.operators.registry.markers import MarkerStore
from sexton.recycle.audit import store, writer
from sexton.recycle.audit.model import AuditRow, AuditUnreadable
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.model import DAY_MS as DAY
from sexton.storage.model import PAGE_KEYS
from sexton.storage.port import VaultFault
from tests.servers.postgres import new_database
from tests.servers.s3 import RunningS3
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DEPLOYMENT, Rig, listing, put

NOON = 20_000 * DAY + DAY // 2
DAYS = 400


@dataclass
class AuditPlaces:
    """A deployment's audit: vaults ``disk`` and ``cold``, each its own place, or ``url`` for both."""

    rig: Rig
    tmp: Path
    url: str = ""

    def places(self, deployment: str = DEPLOYMENT) -> AuditLocations:
        rig = self.rig
        endpoint = rig.endpoint_url
        return AuditLocations(
            rig.vaults, rig.registry.vaults, audit_url=self.url, deployment=deployment, endpoint_url=endpoint
        )

    def audit(self, deployment: str = DEPLOYMENT) -> ParquetAudit:
        return ParquetAudit(self.places(deployment), DAYS)

    def reader(self, deployment: str = DEPLOYMENT) -> AuditReader:
        return AuditReader(self.rig.db, self.places(deployment))

    def round(self, instance: str = "shop", started: int = NOON, ended: int | None = NOON + DAY) -> int:
        t = self.rig.db.t.round
        with self.rig.db.write() as c:
            one = {"instance": instance, "run_id": f"r{started}", "state": "SUCCEEDED", "started_at": started}
            return int(c.execute(insert(t).values(**one, ended_at=ended).returning(t.c.id)).scalar_one())

    def files(self, instance: str = "shop") -> int:
        return self.reader().size(instance, 0, NOON + 1_000 * DAY).files


@pytest.fixture(params=["vaults", "directory", "bucket"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AuditPlaces]:
    server: RunningS3 = request.getfixturevalue("s3_server")
    bucket: str = request.getfixturevalue("bucket")
    rig = Rig(new_database(), endpoint_url=server.endpoint_url).instance()
    rig.local(tmp_path / "disk")
    rig.s3(bucket, prefix="wh/")
    (tmp_path / "elsewhere").mkdir()
    urls = {"vaults": "", "directory": f"file://{tmp_path}/elsewhere", "bucket": f"s3://{bucket}/audit"}
    yield AuditPlaces(rig, tmp_path, urls[request.param])
    rig.db.close()


@pytest.fixture
def in_vaults(tmp_path: Path) -> Iterator[AuditPlaces]:
    """Two vaults on disk, each with its own audit."""
    rig = Rig(new_database()).instance()
    rig.local(tmp_path / "disk")
    rig.local(tmp_path / "cold", "cold")
    yield AuditPlaces(rig, tmp_path)
    rig.db.close()


def rows(round_: int, *keys: str, vault: str = "disk", at: int = NOON, outcome: str = "deleted") -> list[AuditRow]:
    """Rows of one batch, numbered from 1 as a batch numbers its files."""
    return [
        AuditRow(at, "shop", round_, 5, n, "dropped", f"m-{key}", vault, key, 10, outcome, "")
        for n, key in enumerate(keys, 1)
    ]


def test_rows_of_several_vaults_are_read_back_once(places: AuditPlaces) -> None:
    round_, repeated = places.round(), places.round(started=NOON + 1)
    told = rows(round_, "data/é", "data/\U0001f600", "data/a b") + rows(round_, "x/1", "x/2", vault="cold")
    told[1] = told[1]._replace(bytes=None, outcome="failed", reason="AccessDenied: nö")

    places.audit().write(told)
    assert sorted(places.reader().rows(round_)) == sorted(told)

    places.audit().write(rows(repeated, "a", "b", "c"))
    once = places.files()
    places.audit().write(rows(repeated, "a", "b", "c", at=NOON + 1_000))  # again, after a crash
    twice = places.files()
    places.audit().write(rows(repeated, "b", "c", at=NOON + DAY))

    assert twice == once
    assert sorted(r.key for r in places.reader().rows(repeated)) == ["a", "b", "c"]


def test_keys_are_found_in_their_days_until_they_expire(places: AuditPlaces) -> None:
    round_, audit, every = places.round(), places.audit(), NOON + 9 * DAY
    for day in range(4):
        audit.write(rows(round_, f"data/{day}", "data/x", at=NOON + day * DAY))
        audit.write(rows(round_, f"cold/{day}", at=NOON + day * DAY, vault="cold"))

    def found(name: str, begin: int, end: int) -> list[tuple[str, int]]:
        return [(r.key, r.at) for r in places.reader().search("shop", {name}, begin, end)]

    assert found("data/1", 0, every) == [("data/1", NOON + DAY)]
    assert found("m-data/2", 0, every) == [("data/2", NOON + 2 * DAY)]
    assert found("data/1", NOON + 2 * DAY, every) == []
    assert found("data/1", 0, NOON) == []

    too_early = places.audit().forget("shop", NOON + DAYS * DAY)
    removed = audit.forget("shop", NOON + (DAYS + 2) * DAY)
    names = {f"{folder}/{day}" for folder in ("data", "cold") for day in range(4)}
    left = {r.key for r in places.reader().search("shop", names, 0, every)}

    assert (too_early, removed) == (0, 4)
    assert left == {"data/2", "data/3", "cold/2", "cold/3"}


def test_expired_files_are_listed_once_a_day(in_vaults: AuditPlaces) -> None:
    round_, audit, late = in_vaults.round(), in_vaults.audit(), NOON + (DAYS + 9) * DAY
    audit.write(rows(round_, "a"))

    first = audit.forget("shop", late)
    audit.write(rows(round_, "b"))

    assert (first, audit.forget("shop", late), audit.forget("shop", late + DAY)) == (1, 0, 1)


def test_many_old_files_are_deleted_in_parts(in_vaults: AuditPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FORGET_PAGES", 1)
    audit, late = in_vaults.audit(), NOON + 2 * DAYS * DAY
    for n in range(PAGE_KEYS + 1):
        put(in_vaults.tmp / "disk", f"_sexton/audit/shop/2024-01-01/round-1/batch-{n}-00.parquet")

    removed = [audit.forget("shop", late) for _ in range(3)]

    assert removed == [PAGE_KEYS, 1, 0]
    assert in_vaults.files() == 0


def test_counting_files_of_a_search_stops_at_a_limit(in_vaults: AuditPlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    round_ = in_vaults.round()
    in_vaults.audit().write(rows(round_, "a") + rows(round_, "b", vault="cold"))
    whole = in_vaults.reader().size("shop", 0, NOON + DAY)

    monkeypatch.setattr(store, "COUNTED_FILES", 1)
    cut = in_vaults.reader().size("shop", 0, NOON + DAY)

    assert (whole.files, whole.whole) == (2, True)
    assert (cut.files, cut.whole) == (1, False)
    with pytest.raises(BadInput, match="there is no round 99"):  # which is not an empty one
        in_vaults.reader().rows(99)


def test_the_audit_of_an_instance_is_its_own(in_vaults: AuditPlaces) -> None:
    in_vaults.rig.instance("shop2").local(in_vaults.tmp / "second", "disk", "shop2")
    round_ = in_vaults.round("shop2")
    in_vaults.audit().write([r._replace(instance="shop2") for r in rows(round_, "a")])

    found = list(in_vaults.reader().search("shop", {"a"}, 0, NOON + DAY))
    removed = in_vaults.audit().forget("shop", NOON + 2 * DAYS * DAY)

    assert (found, removed, in_vaults.files("shop2")) == ([], 0, 1)


@pytest.mark.parametrize("places", ["directory", "bucket"], indirect=True)
def test_deployments_in_one_place_do_not_see_each_other(places: AuditPlaces) -> None:
    round_ = places.round()
    places.audit("test-other").write(rows(round_, "a"))

    found = list(places.reader().rows(round_))
    removed = places.audit().forget("shop", NOON + 2 * DAYS * DAY)

    assert (found, removed) == ([], 0)
    assert [r.key for r in places.reader("test-other").rows(round_)] == ["a"]


def test_a_batch_that_counts_from_one_again_loses_nothing(in_vaults: AuditPlaces) -> None:
    round_ = in_vaults.round()
    in_vaults.audit().write(rows(round_, "a", "b"))

    in_vaults.audit().write(rows(round_, "c", "d"))
    in_vaults.audit().write(rows(round_, "a", outcome="failed"))

    found = sorted((r.key, r.outcome) for r in in_vaults.reader().rows(round_))
    assert found == [("a", "deleted"), ("a", "failed"), *((key, "deleted") for key in "bcd")]


def test_an_unreachable_vault_loses_only_its_own_rows(in_vaults: AuditPlaces) -> None:
    round_ = in_vaults.round()
    (in_vaults.tmp / "disk").rename(in_vaults.tmp / "unmounted")

    with pytest.raises(VaultFault) as fault:
        in_vaults.audit().write(rows(round_, "a") + rows(round_, "b", vault="cold"))
    told: list[str] = []
    with pytest.raises(VaultFault, match="vault disk"):
        told.extend(r.key for r in in_vaults.reader().rows(round_))

    assert fault.value.vault == "disk"
    assert told == ["b"]


def test_an_unreachable_audit_location_is_a_fault(in_vaults: AuditPlaces) -> None:
    in_vaults.rig.endpoint_url, round_ = "http://127.0.0.1:1", in_vaults.round()
    for url, fault in ((f"{in_vaults.tmp}/nowhere", "NO_BUCKET"), ("s3://archive", "UNREACHABLE")):
        in_vaults.url = url
        with pytest.raises(VaultFault, match=f"vault audit_url: {fault}"):
            in_vaults.audit().write(rows(round_, "a"))

    assert not (in_vaults.tmp / "nowhere").exists()


def test_audit_rows_in_vaults_are_read_after_a_move_elsewhere(in_vaults: AuditPlaces) -> None:
    round_ = in_vaults.round()
    in_vaults.audit().write(rows(round_, "a"))
    (in_vaults.tmp / "elsewhere").mkdir()
    in_vaults.url = str(in_vaults.tmp / "elsewhere")

    in_vaults.audit().write(rows(round_, "b"))

    assert sorted(r.key for r in in_vaults.reader().rows(round_)) == ["a", "b"]


def test_a_damaged_file_is_named_and_hides_no_other_place(in_vaults: AuditPlaces) -> None:
    round_ = in_vaults.round()
    in_vaults.audit().write(rows(round_, "a") + rows(round_, "b", vault="cold"))
    [file] = (in_vaults.tmp / "cold").rglob("*.parquet")
    file.write_bytes(b"no Parquet")

    told: list[str] = []
    with pytest.raises(AuditUnreadable, match=file.name):
        told.extend(r.key for r in in_vaults.reader().rows(round_))

    assert told == ["a"]


@pytest.fixture
def again(rig: Rig, s3_server: RunningS3) -> Iterator[Callable[[], Rig]]:
    """Return a new worker of the rig's database, one that writes its audit into the vaults."""
    made: list[Rig] = []

    def start() -> Rig:
        worker = Rig(rig.url, endpoint_url=s3_server.endpoint_url)
        worker.audit = ParquetAudit(_places(worker), 400)
        worker.recycler = worker.recycler_of(worker.owner)
        made.append(worker)
        return worker

    yield start
    for one in made:
        one.db.close()


def _places(rig: Rig) -> AuditLocations:
    return AuditLocations(rig.vaults, rig.registry.vaults)


def audit_rows(rig: Rig, round_: int) -> list[tuple[str, str, str]]:
    """Return (vault, key, outcome) of what the audit says of one round."""
    return sorted((r.vault, r.key, r.outcome) for r in AuditReader(rig.db, _places(rig)).rows(round_))


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

    report = worker.round(after=10_801)

    assert audit_rows(worker, report.round) == [
        ("cold", "data/cold.dat", "deleted"),
        ("disk", "data/9/a.dat", "deleted"),
        ("disk", "data/é.dat", "deleted"),
    ]


def test_a_crash_loses_no_row_and_the_audit_outlives_the_history(again: Callable[[], Rig], tmp_path: Path) -> None:
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

    worker.later(31 * 86_400)  # the history in SQL ends
    worker.round()
    now = worker.now()
    [found] = AuditReader(worker.db, _places(worker)).search("shop", {"data/a.dat"}, 0, now)

    assert worker.count("mark_history") == 0
    assert (found.round, found.id, found.outcome) == (first, "k", "deleted")
    assert now - found.at >= 31 * DAY


def test_records_stay_while_their_audit_cannot_be_written(again: Callable[[], Rig], tmp_path: Path) -> None:
    worker = again()
    root = worker.local(tmp_path / "v")
    worker.drop(root, "data/a.dat", "k", later=10_801)
    in_the_way = root / "_sexton" / "audit"
    in_the_way.write_bytes(b"a file where the folder should be")

    kept = worker.round()
    record = worker.row("dropped", "k")
    in_the_way.unlink()
    done = worker.round(after=3_601)

    assert (kept.removed, record.state, listing(root)) == (0, "CLAIMED", {})
    assert kept.faults == 1
    assert (done.removed, audit_rows(worker, kept.round)) == (1, [("disk", "data/a.dat", "deleted")])
