"""What was found by those who tried to break deletion on Spark."""

import os
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.recycle.pipeline import ranges
from sexton.runtime.spark import deleter, deletion, session
from sexton.runtime.spark.deleter import SparkDeleter, SparkDeletion
from sexton.runtime.spark.deletion import DeleteOrder, PartResult, Work
from sexton.runtime.spark.locations import ConnectionTarget, without_password
from sexton.runtime.spark.session import Sessions, SparkFailed
from tests.integration.runtime.spark.conftest import Deleting
from tests.support.kept import kept_texts
from tests.support.rig import DEPLOYMENT, RETENTION, Rig, listing, put

TICKS = 300
SQLITE = pytest.mark.parametrize("clean_url", ["sqlite"], indirect=True)


def where(rig: Rig) -> ConnectionTarget:
    return ConnectionTarget(
        deployment=DEPLOYMENT, database_url=without_password(rig.url), endpoint_url=rig.endpoint_url
    )


def due(rig: Rig, root: Path, marks: int, vault: str = "disk") -> None:
    for n in range(marks):
        put(root, f"data/t{n:03}_0.dat")
    rig.mark(
        "dropped", *(NewMark(id=f"{vault}{n:03}", vault=vault, keys=(f"data/t{n:03}_0.dat",)) for n in range(marks))
    )
    rig.later(RETENTION["dropped"] + 1)


@SQLITE
@pytest.mark.timeout(120)
def test_what_executors_cannot_reach_is_claimed_no_further(
    rig: Rig, deleting: Deleting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process can use the vault, its executors cannot: whole ranges were claimed, and nothing was deleted."""
    rig.instance()
    root = rig.local(tmp_path / "disk")
    due(rig, root, 60)
    monkeypatch.setattr(ranges, "GROUP_FILES", 10)
    monkeypatch.setattr("sexton.recycle.pipeline.ranges.CHUNK_MARKS", 10)

    def unmounted(_s: Any, _t: Collection[str], order: DeleteOrder) -> list[PartResult]:
        return [PartResult(faults={"disk": "NO_BUCKET"}, logged=True) for _ in order.parts]

    monkeypatch.setattr(deleter, "_run", unmounted)
    deleting(rig)
    report = rig.round()

    assert len(listing(root)) == 60
    assert 0 < report.claimed <= 10 * ranges.GROUPS_AT_ONCE
    assert kept_texts(report) == {"vault disk: NO_BUCKET": 60 - report.claimed}
    assert report.vaults == {"disk": "NO_BUCKET"}
    assert report.faults > 0


@SQLITE
def test_a_part_with_a_fault_leaves_the_audit_to_whoever_settles(
    rig: Rig, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another copy of the part may have deleted what this one could not, and would have been told by nobody."""
    rig.instance()
    root = rig.local(tmp_path / "disk")
    due(rig, root, 3)
    told = []

    class Here(SparkDeletion):
        """Sweeps in this process, first on a machine where the disk is not mounted."""

        def wait_for(self, to: int) -> None:
            order = DeleteOrder(work=self._deleter.work, token=self._token, parts=(), excluded_vaults={}, faults={})
            (root / "_sexton/vault.json").rename(tmp_path / "away")
            told.append(deletion._delete(order, 0, to))
            (tmp_path / "away").rename(root / "_sexton/vault.json")
            told.append(deletion._delete(order, 0, to))
            self._sent_to = self._tried_to = to

    sweeper = SparkDeleter(sessions, Work(where=where(rig), requests=1), rig.stores.outcomes, 1)
    monkeypatch.setattr(deleter, "SparkDeletion", Here)
    rig.recycler = rig.recycler_of(rig.owner, sweeper)
    rig.round()

    one = [t for t in told if t.faults]
    assert one == [PartResult(faults={"disk": "NO_MARKER"}, logged=False)]
    assert told[told.index(one[0]) + 1] == PartResult(faults={}, logged=True)
    assert not listing(root)


@SQLITE
@pytest.mark.timeout(120)
def test_a_folder_of_audits_is_not_written_on_other_machines(
    rig: Rig, sessions: Sessions, deleting: Deleting, tmp_path: Path
) -> None:
    away = SimpleNamespace(local=False, cores=None, of=sessions.of)
    for audit_url in ("file:///audits", "/audits"):
        work = Work(
            where=where(rig).model_copy(update={"database_url": "postgresql://h/d"}), requests=1, audit_url=audit_url
        )
        assert not SparkDeleter(away, work, rig.stores.outcomes, 4).work.audits  # type: ignore[arg-type]
        assert SparkDeleter(sessions, work, rig.stores.outcomes, 4).work.audits
    assert SparkDeleter(
        away, work.model_copy(update={"audit_url": "s3://bucket/a"}), rig.stores.outcomes, 4
    ).work.audits  # type: ignore[arg-type]

    rig.instance()
    due(rig, rig.local(tmp_path / "disk"), 5)
    deleting(rig)._ranges._steps.deleter.work = Work(where=where(rig), requests=1, audits=False)  # type: ignore[attr-defined]
    report = rig.round()

    assert report.deleted == 5
    assert len(list((tmp_path / "disk/_sexton/audit").rglob("*.parquet"))) == 1  # told once, by this process


@pytest.mark.timeout(120)
def test_who_leaves_a_session_does_not_end_it_for_others_and_it_can_always_be_had_again(sessions: Sessions) -> None:
    def works(one: Any) -> bool:
        return bool(one.range(3).count() == 3)

    with sessions.of("a") as first:
        with sessions.of("b") as second:
            assert first is second
        assert works(first)
    for _ in range(8):
        with sessions.of("a") as again:
            assert works(again)
            again.client.release_session()  # as a server does with one that was idle for long
    with sessions.of("a") as last:
        assert works(last)


@pytest.mark.timeout(120)
def test_what_runs_by_a_batch_is_interrupted_by_who_takes_it_over(sessions: Sessions, tmp_path: Path) -> None:
    """An attempt that was silent for too long still runs, on the same worker; another one begins."""
    file = tmp_path / "ticks"
    ticks = str(file)

    def ticking(batches: Any) -> Any:
        for batch in batches:
            for _ in range(TICKS):
                with Path(ticks).open("a") as out:
                    out.write("x")
                time.sleep(0.1)
            yield batch

    with sessions.of("batch") as old, ThreadPoolExecutor(1) as pool:
        told = pool.submit(
            session.tagged,
            old,
            {"batch", "batch-1"},
            old.range(0, 1, 1, 1).mapInArrow(ticking, "id long").collect,
        )
        while not file.exists():
            time.sleep(0.05)
        with sessions.of("batch"):
            with pytest.raises(SparkFailed):
                told.result(30)
            ended = -1
            while file.stat().st_size != ended:  # Python goes on for a while after its job
                ended = file.stat().st_size
                time.sleep(1.5)
            assert ended < TICKS
        session.interrupt(old, "batch-1", [told])  # failed here, so it is told to stop once more, and that ends


def test_the_same_code_is_the_same_archive_whenever_it_was_installed(tmp_path: Path) -> None:
    first = session.archive(tmp_path)
    content = first.read_bytes()
    os.utime(deletion.__file__, (time.time() - 86_400, time.time() - 86_400))
    second = session.archive(tmp_path)

    assert second == first
    assert second.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == [first.name]


@pytest.mark.timeout(120)
def test_a_server_that_is_gone_is_no_reason_to_wait_for_minutes(tmp_path: Path) -> None:
    running = Sessions("local[1]", {"spark.driver.memory": "512m"}, tmp_path)
    try:
        with running.of("x") as one, ThreadPoolExecutor(1) as pool:
            sleeping = one.range(0, 1, 1, 1).mapInArrow(_sleeping, "id long")
            told = pool.submit(session.tagged, one, {"x"}, sleeping.collect)
            time.sleep(3)
            assert running._server is not None
            running._server.child.kill()
            began = time.monotonic()
            ended = threading.Event()
            threading.Thread(target=lambda: (session.interrupt(one, "x", [told]), ended.set()), daemon=True).start()
            assert ended.wait(60)
        print(f"given up after {time.monotonic() - began:.0f} s")
        with pytest.raises(SparkFailed, match="server has ended"), running.of("y"):
            pass
    finally:
        running.close()


def _sleeping(batches: Any) -> Any:
    time.sleep(60)
    yield from batches
