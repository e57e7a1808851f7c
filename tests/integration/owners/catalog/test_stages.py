"""Files of stages are deleted when they were loaded, expired or dropped, and never while a copy job reads them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from sexton import contract
from sexton.kernel.errors import BadInput
from sexton.marks.model import Reason
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.errors import AlreadyDropped, RecordNotFound, WrongState
from sexton.owners.catalog.model import CopyJob, ExternalFile, StagedFile
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from tests.integration.owners.catalog.shop import HOUR, OWN, Shop
from tests.integration.recycle.pipeline.refusing import refusing
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3

EXPIRED = OWN["stage_file"] + 1
"""Seconds after which a staged file that no job loads is deleted."""


def upload(shop: Shop, *names: str, stage: str = "u1") -> list[StagedFile]:
    """Announce files of a stage, and write each."""
    files = shop.catalog.announce_files(stage, dict.fromkeys(names, 10))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: shop.put(file.vault, file.key), files))
    return files


def copied(shop: Shop, files: list[StagedFile], table: str = "t", timeout: int = HOUR) -> CopyJob:
    """Begin a copy job of staged files."""
    return shop.catalog.begin_copy("u1", table, [file.id for file in files], timeout)


def commit(shop: Shop, *jobs: CopyJob) -> None:
    """Commit an empty load with copy jobs."""
    txn = shop.catalog.begin(f"load-{shop.number(shop.t.txns)}", HOUR)
    shop.catalog.commit(txn, copy_jobs=[job.id for job in jobs])


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def staged(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Shop]:
    """A shop with table ``t`` and the internal stage ``u1``, in a directory or in S3."""
    if request.param == "s3":
        server: RunningS3 = request.getfixturevalue("s3_server")
        shop = Shop(database_url, endpoint_url=server.endpoint_url).register()
        shop.bucket(server.client(), request.getfixturevalue("bucket"))
    else:
        shop = Shop(database_url).register()
        shop.local(tmp_path / "disk")
    shop.table()
    shop.catalog.create_stage("u1", shop.first_vault)
    yield shop
    shop.close()


def test_r24_copy_jobs_of_every_state(staged: Shop) -> None:
    shop = staged
    shop.catalog.create_external_stage("own")
    loaded, late, running, cancelled = (upload(shop, name) for name in ("a", "b", "c", "d"))
    commit(shop, copied(shop, loaded))
    jobs = [copied(shop, late, timeout=60), copied(shop, running), copied(shop, cancelled)]
    shop.catalog.cancel_copy(jobs[2].id)
    external = shop.catalog.begin_external_copy("own", "t", [ExternalFile(key="k", etag="e")], HOUR)
    commit(shop, external)
    shop.later(61)

    shop.round()

    assert shop.objects() == {f[0].key for f in (late, running, cancelled)}
    assert shop.number(shop.t.copy_jobs) == 2  # the one that runs, and the external one
    assert shop.record(shop.t.copy_jobs, external.id).state == "FINISHED"
    with pytest.raises(RecordNotFound, match="took too long"):
        commit(shop, jobs[0])
    assert copied(shop, late).files == (late[0].id,)
    shop.later(OWN["external_copy_job"])
    shop.round()
    assert shop.record(shop.t.copy_jobs, external.id) is None
    assert shop.number(shop.t.copied_files, job_id=external.id) == 0


@pytest.mark.slow
def test_r25_a_copy_batch_whose_deletes_fail_is_kept(cold_shop: Shop, proxy: FaultProxy) -> None:
    shop = cold_shop
    shop.table()
    shop.catalog.create_stage("u1", "cold")
    files = upload(shop, *(f"f{n}" for n in range(1_010)))
    commit(shop, copied(shop, files))
    keys = {file.key for file in files}
    proxy.fail_keys(dict.fromkeys(keys, "AccessDenied"), times=1)

    shop.round()
    before, records = shop.objects(), shop.number(shop.t.staged_files)
    shop.later(HOUR)
    shop.round()

    assert (before, records) == (keys, 1_010)
    assert shop.objects() == set()
    assert (shop.number(shop.t.staged_files), shop.number(shop.t.copy_jobs)) == (0, 0)


def test_files_that_a_vault_refuses_to_delete_are_kept(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.table()
    shop.catalog.create_stage("u1", "disk")
    [refused, other] = upload(shop, "a", "b")
    commit(shop, copied(shop, [refused, other]))

    with monkeypatch.context() as m:
        m.setattr(LocalVault, "delete", refusing(refused.key))
        shop.round()
    before, records = shop.objects(), shop.number(shop.t.staged_files)
    shop.later(HOUR)
    shop.round()

    assert (before, records) == ({refused.key}, 2)
    assert shop.objects() == set()


def test_r26_a_dropped_stage_is_deleted_with_its_files(staged: Shop) -> None:
    shop = staged
    files = upload(shop, *(f"f{n}" for n in range(10)))
    finished = copied(shop, files[:3])
    commit(shop, finished)
    shop.put(shop.first_vault, "stage/u1/uploaded-without-a-record")
    shop.catalog.drop_stage("u1")

    shop.round()
    shop.second_pass()

    assert shop.objects() == set()
    assert {ref.kind for ref in shop.refs()} <= {"txn_label"}
    assert [shop.number(t) for t in (shop.t.stages, shop.t.staged_files, shop.t.copy_jobs)] == [0, 0, 0]


@pytest.mark.parametrize("prefix", [None, "stage/", "stage/u10/", "data/x/"])
def test_r27_a_wrong_prefix_of_a_stage_is_refused(staged: Shop, prefix: str | None) -> None:
    shop = staged
    shop.catalog.create_stage("u10", shop.first_vault)
    files = [*upload(shop, "a"), *upload(shop, "b", stage="u10")]
    mark_stage(shop, prefix)

    shop.round()

    assert shop.objects() == {file.key for file in files}
    [row] = QuarantineStore(shop.db).list()
    assert (row.kind, row.id, row.reason) == ("stage", "u1", Reason.BAD_PREFIX)


@pytest.mark.parametrize("prefix", ["", "/", "stage/u1"])
def test_r27_a_prefix_of_many_stages_is_not_even_marked(staged: Shop, prefix: str) -> None:
    with pytest.raises((BadInput, IntegrityError)):
        mark_stage(staged, prefix)

    assert staged.refs() == set()


def mark_stage(shop: Shop, prefix: str | None) -> None:
    """Mark stage ``u1`` as dropped, with a prefix that is not its own."""
    shop.change(shop.t.stages, "u1", dropped=True)
    with shop.db.write() as c:
        contract.mark(c, "shop", "stage", [contract.NewMark(id="u1", vault=shop.first_vault, prefix=prefix)])


@pytest.mark.parametrize("name", ["", "/", ".", "..", "u1/u2", "u_1"])
def test_a_stage_is_named_by_an_id(shop: Shop, name: str) -> None:
    with pytest.raises(BadInput, match="is not an id"):
        shop.catalog.create_stage(name, "disk")


def test_a_dropped_stage_leaves_its_neighbour(staged: Shop) -> None:
    shop = staged
    shop.catalog.create_stage("u10", shop.first_vault)
    upload(shop, "a")
    [kept] = upload(shop, "b", stage="u10")
    shop.catalog.drop_stage("u1")

    shop.round()
    shop.second_pass()

    assert shop.objects() == {kept.key}


def test_r47_a_file_uploaded_again_during_a_copy_stays(staged: Shop) -> None:
    shop = staged
    [old] = upload(shop, "orders.csv")
    job = copied(shop, [old])
    [new] = upload(shop, "orders.csv")
    commit(shop, job)

    shop.round()

    assert shop.objects() == {new.key}
    assert [file.id for file in shop.catalog.staged_files("u1")] == [new.id]


def test_a_file_is_loaded_into_a_table_once(staged: Shop) -> None:
    shop = staged
    shop.table("other")
    files = upload(shop, "a", "b")
    first = copied(shop, files[:1])
    second = copied(shop, files)
    third = copied(shop, files, table="other")

    assert [job.files for job in (first, second)] == [(files[0].id,), (files[1].id,)]
    assert set(third.files) == {file.id for file in files}


def test_a_file_that_another_job_reads_is_kept(staged: Shop) -> None:
    shop = staged
    shop.table("other")
    files = upload(shop, "a")
    finished, running = copied(shop, files), copied(shop, files, table="other")
    commit(shop, finished)

    shop.round()
    during = shop.objects()
    commit(shop, running)
    shop.round()

    assert during == {files[0].key}
    assert shop.objects() == set()
    assert {ref.kind for ref in shop.refs()} <= {"txn_label"}


def test_files_expire_unless_a_job_reads_them(staged: Shop) -> None:
    shop = staged
    old, read = upload(shop, "old"), upload(shop, "read")
    shop.later(EXPIRED - 600)
    young = upload(shop, "young")
    copied(shop, read, timeout=3 * EXPIRED)
    shop.later(601)
    shop.round()
    first = shop.objects()
    shop.later(2 * EXPIRED - 1_000)
    shop.round()

    assert first == {f[0].key for f in (read, young)}
    assert shop.objects() == {read[0].key}
    with pytest.raises(RecordNotFound, match="among the staged files"):
        copied(shop, old)


def test_a_loaded_file_is_not_loaded_again(staged: Shop) -> None:
    shop = staged
    shop.table("other")
    files = upload(shop, "a")
    commit(shop, copied(shop, files))

    with pytest.raises(WrongState, match="loaded already"):
        copied(shop, files, table="other")
    assert copied(shop, files).files == ()


def test_a_dropped_stage_waits_for_its_copy_jobs(staged: Shop) -> None:
    shop = staged
    files = upload(shop, "a")
    job = copied(shop, files)
    shop.catalog.drop_stage("u1")

    shop.round()
    during = shop.objects()
    with pytest.raises(AlreadyDropped):
        copied(shop, files)
    commit(shop, job)
    shop.round()

    assert during == {files[0].key}
    assert shop.objects() == set()


def test_a_hold_on_a_staged_file_outlives_its_copy(staged: Shop) -> None:
    shop = staged
    files = upload(shop, "a", "b")
    order = Hold(
        instance="shop", scope="mark", reason="r", mark_kind="stage_file", mark_id=files[0].id, placed_by="anna"
    )
    hold, _ = shop.holds.place(order, 10 * HOUR)
    commit(shop, copied(shop, files))

    shop.round()
    held = shop.objects()
    shop.holds.release(hold.id)
    shop.round()

    assert held == {file.key for file in files}
    assert shop.objects() == set()


def test_a_copy_job_of_an_unknown_state_keeps_its_files(staged: Shop) -> None:
    shop = staged
    files = upload(shop, "a")
    job = copied(shop, files)
    shop.change(shop.t.copy_jobs, job.id, state="???")
    shop.catalog.drop_stage("u1")
    shop.later(EXPIRED)

    shop.round()
    shop.check()

    assert shop.objects() == {files[0].key}
    assert f"copy_job/{job.id}" in shop.open_findings()["RECORD"]


def test_a_copy_job_needs_files(staged: Shop) -> None:
    with pytest.raises(BadInput, match="at least one file"):
        staged.catalog.begin_copy("u1", "t", [], HOUR)

    assert staged.number(staged.t.copy_jobs) == 0


def test_an_undropped_stage_keeps_its_files(staged: Shop) -> None:
    shop = staged
    files = upload(shop, "a")
    shop.catalog.drop_stage("u1")
    shop.catalog.undrop_stage("u1")

    shop.round()

    assert shop.objects() == {files[0].key}
    assert copied(shop, files).files == (files[0].id,)


def test_external_stages_have_no_files_to_delete(staged: Shop) -> None:
    shop = staged
    shop.catalog.create_external_stage("own")
    etags = [ExternalFile(key="k", etag=etag) for etag in ("1", "2")]
    first = shop.catalog.begin_external_copy("own", "t", etags[:1], HOUR)
    second = shop.catalog.begin_external_copy("own", "t", etags, HOUR)
    with pytest.raises(WrongState):
        shop.catalog.announce_files("own", {"a": 1})
    with pytest.raises(WrongState):
        shop.catalog.begin_external_copy("u1", "t", etags, HOUR)
    commit(shop, first, second)
    shop.catalog.drop_stage("own")

    shop.round()

    assert (first.files, second.files) == (("k",), ("k",))
    assert shop.number(shop.t.copy_jobs) == shop.number(shop.t.stages, id="own") == 0
