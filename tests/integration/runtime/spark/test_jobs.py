"""The worker splits files into Spark jobs, and reacts to faults and stops of each part; no Spark server needed."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.model import Lease, LeaseLost, WriteToken
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.runtime.spark import deleter, deletion
from sexton.runtime.spark.deleter import SparkDeleter, SparkDeletion
from sexton.runtime.spark.deletion import DeleteOrder, PartResult, Work
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.runtime.spark.session import SparkFailed
from sexton.storage.port import VaultFault
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.rig import DEPLOYMENT, RETENTION, Rig, listing, put

WELL = PartResult(faults={}, logged=True)
HAND = WriteToken(batch=7, round=1, lease=Lease(instance="shop", job="recycle", owner="run", epoch=1), attempt=1)
TASKS = 3


class Session:
    """One that runs nothing and notes what it is told to stop."""

    def __init__(self) -> None:
        self.interrupted: list[str] = []

    def interruptTag(self, tag: str) -> None:  # Spark calls it so
        self.interrupted.append(tag)


class Field:
    """A deletion, what it sends, and a door for each of its jobs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders: list[DeleteOrder] = []
        self.answers: dict[int, list[PartResult] | Exception] = {}
        self.doors = [threading.Event() for _ in range(20)]
        self.session, self.proofs, self.local, self.cores = Session(), 0, True, TASKS
        monkeypatch.setattr(deleter, "LEAST_FILES", 10)
        monkeypatch.setattr(deleter, "JOB_FILES", 10)
        monkeypatch.setattr(deleter, "PAGE_KEYS", 2)
        monkeypatch.setattr(deleter, "_run", self._run)
        where = ConnectionTarget(deployment=DEPLOYMENT, database_url="postgresql://127.0.0.1:1/none")
        self.deleter = SparkDeleter(self, Work(where=where, requests=1), 2 * TASKS)  # type: ignore[arg-type]
        self.active_lease = ActiveLease(self, self, HAND.lease, self._heartbeat, {"shut": "BEHIND"})  # type: ignore[arg-type]

    @contextmanager
    def of(self, _tag: str, _keep_alive: Callable[[], None]) -> Iterator[Session]:
        yield self.session

    def renew(self, _: Lease) -> None:
        """It is always ours."""

    def check(self, _: str) -> frozenset[str]:
        return frozenset()

    def _heartbeat(self) -> None:
        self.proofs += 1

    def _run(self, _session: Session, _tags: Collection[str], order: DeleteOrder) -> list[PartResult]:
        number = len(self.orders)
        self.orders.append(order)
        assert self.doors[number].wait(PATIENCE_SECONDS)
        answer = self.answers.get(number, [WELL] * len(order.parts))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin(self) -> SparkDeletion:
        return self.deleter.begin(HAND, self.active_lease)

    def delete(self, to: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Delete so many files."""
        with self.begin() as going:
            going.release_up_to(to)
            meanwhile()
            going.finish()


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Field:
    return Field(monkeypatch)


def test_every_file_is_in_one_part_of_one_job(field: Field) -> None:
    for door in field.doors:
        door.set()
    with field.begin() as going:
        for to in (4, 9, 17, 18, 40, 41):
            going.release_up_to(to)
        going.finish()
        assert going.has_tried(41)
    numbers = [n for order in field.orders for after, to in order.parts for n in range(after + 1, to + 1)]

    assert sorted(numbers) == list(range(1, 42))
    assert all(1 <= len(order.parts) <= TASKS for order in field.orders)
    assert max(len(order.parts) for order in field.orders) == TASKS
    assert max(order.parts[-1][1] - order.parts[0][0] for order in field.orders) <= 2 * deleter.JOB_FILES
    assert field.session.interrupted == []


def test_jobs_may_finish_out_of_order(field: Field) -> None:
    with field.begin() as going, ThreadPoolExecutor(1) as pool:
        going.release_up_to(10)
        eventually("the first job runs", lambda: len(field.orders) == 1)
        going.release_up_to(20)
        eventually("the second job runs", lambda: len(field.orders) == 2)
        field.doors[1].set()
        ended = pool.submit(going.wait_for, 20)
        before, began = field.proofs, time.monotonic()
        eventually("it waits, and says so", lambda: field.proofs >= before + 3)
        assert time.monotonic() - began > 0.1  # but not all the time
        assert not ended.done()
        field.doors[0].set()
        ended.result(PATIENCE_SECONDS)
        assert going.has_tried(20)


def test_a_stop_in_a_part_stops_the_deletion(field: Field) -> None:
    for told, raised in (("LeaseLost", LeaseLost), ("Halted", SparkFailed), ("OperationalError", SparkFailed)):
        number = len(field.orders)
        field.answers[number] = [WELL, PartResult(faults={}, logged=False, stopped=told, error="why")]
        field.doors[number].set()
        with pytest.raises(raised, match="why"):
            field.delete(4)


def test_unlogged_parts_are_named_by_their_files(field: Field) -> None:
    field.answers[1] = [WELL, PartResult(faults={}, logged=False)]
    for door in field.doors:
        door.set()
    with field.begin() as going:
        for to in (10, 20, 30):
            going.release_up_to(to)
            going.wait_for(to)
        told = [going.logged(after, to) for after, to in ((0, 10), (5, 11), (10, 20), (19, 25), (20, 30), (0, 30))]

    assert told == [True, False, False, False, True, False]


def test_faults_of_executors_are_passed_on(field: Field) -> None:
    found = PartResult(faults={"disk": "NO_MARKER"}, logged=False, fault_details={"disk": "no file"})
    field.answers[0] = [found]
    for door in field.doors:
        door.set()
    with field.begin() as going:
        going.release_up_to(10)
        going.wait_for(10)
        with pytest.raises(VaultFault, match="NO_MARKER"):
            field.active_lease.refuse_excluded("disk")
        going.release_up_to(20)
        going.finish()

    assert field.active_lease.faults == {"disk": "NO_MARKER"}
    assert field.active_lease.fault_details == {"disk": "an executor cannot use it: no file"}
    assert field.orders[0].excluded_vaults == {"shut": "BEHIND"}
    assert field.orders[1].faults == {"disk": "NO_MARKER"}
    assert field.orders[1].excluded_vaults == {"shut": "BEHIND", "disk": "NO_MARKER"}


def test_a_stopped_deletion_interrupts_running_and_failed_jobs(field: Field) -> None:
    def stop() -> None:
        eventually("the job is interrupted", lambda: field.session.interrupted)
        field.doors[0].set()

    def cancelled() -> None:
        eventually("a job runs", lambda: field.orders)
        threading.Thread(target=stop).start()
        raise TimeoutError

    with pytest.raises(TimeoutError):
        field.delete(10, cancelled)
    under_way = len(field.session.interrupted)
    field.answers[1] = SparkFailed("its stream was cut")
    field.doors[1].set()
    with pytest.raises(SparkFailed, match="stream"):
        field.delete(10)

    assert under_way >= 1
    assert len(field.session.interrupted) == under_way + 1
    assert len(set(field.session.interrupted)) == 1


@pytest.mark.slow
def test_a_part_that_skips_vaults_is_not_logged(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another copy of a part with a fault may have deleted files: their log is left to the worker."""
    root = rig.local(tmp_path / "disk")
    names = [f"data/t{n}_0.dat" for n in range(4)]
    for name in names:
        put(root, name)
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=(name,)) for n, name in enumerate(names)))
    rig.later(RETENTION["dropped"] + 1)
    marker, left = root / "_sexton/vault.json", list[tuple[PartResult, int]]()

    class Here(SparkDeletion):
        """Deletes in this process, a part at a time; first on a machine where the disk is not mounted."""

        def wait_for(self, to: int) -> None:
            if to > self._tried_to:
                order = DeleteOrder(work=self._deleter.work, token=self._token, parts=(), excluded_vaults={}, faults={})
                marker.rename(tmp_path / "away")
                left.append((deletion._delete(order, 0, to), len(listing(root))))
                (tmp_path / "away").rename(marker)
                for given in ({"excluded_vaults": {"disk": "BEHIND"}}, {"faults": {"disk": "THROTTLED"}}):
                    left.append((deletion._delete(order.model_copy(update=given), 0, to), len(listing(root))))
                for after in (1, 3, 0):
                    left.append((deletion._delete(order, after, after + 1), len(listing(root))))
                deletion._delete(order, 0, to)
            self._sent_to = self._tried_to = to

    monkeypatch.setattr(deleter, "SparkDeletion", Here)
    where = ConnectionTarget(deployment=DEPLOYMENT, database_url=rig.url, live_database_url=rig.live_url)
    deleter_on_spark = SparkDeleter(Field(monkeypatch), Work(where=where, requests=1), 1)  # type: ignore[arg-type]
    rig.recycler = rig.recycler_of(rig.owner, deleter_on_spark)
    report = rig.round()

    (first, files), *_ = left
    assert (first.faults, first.logged, files) == ({"disk": "NO_MARKER"}, False, 4)
    assert first.fault_details["disk"].startswith("there is no _sexton/vault.json")
    assert [(set(told.faults), told.logged, files) for told, files in left[1:3]] == [
        ({"disk"}, False, 4),
        (set(), False, 4),  # the driver's own fault: an executor must not make it one that excludes the vault
    ]
    assert left[3:] == [(WELL, files) for files in (3, 2, 1)]
    assert (report.deleted, report.removed) == (4, 4)
