"""A round on Spark deletes exactly what one in one process deletes, and claims nothing that executors cannot reach."""

import os
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from sexton.marks.model import Reason
from sexton.operators.controls.model import ControlKind, Halted
from sexton.operators.holds.model import Hold
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.pipeline import ranges, resolve
from sexton.runtime.spark import deleter
from sexton.runtime.spark.deleter import SparkDeleter
from sexton.runtime.spark.deletion import DeleteOrder, PartResult, Work
from sexton.runtime.spark.session import Sessions, SparkFailed
from sexton.storage.local.vault import LocalVault
from tests.fault.live.store import MARK_KEYS, PAGE, REAL_EVERY, Bucket, deletes
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.recycle.pipeline.attempts import range_order
from tests.integration.recycle.pipeline.refusing import refusing
from tests.integration.runtime.spark.conftest import Deleting, audit_locations, target
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.support.crashes import Crash, at_point, crash_at
from tests.support.eventually import eventually
from tests.support.kept import kept_texts
from tests.support.rig import DAY, RETENTION, Rig, listing, put

pytestmark = pytest.mark.slow


def test_a_round_on_spark_deletes_exactly_the_due_objects(rig: Rig, deleting: Deleting, tmp_path: Path) -> None:
    root, other = rig.local(tmp_path / "disk"), rig.local(tmp_path / "other", "other")
    due = [f"data/t{n % 7}/r{n}_0.dat" for n in range(60)]
    for key in (*due, "data/t1/live_0.dat", "data/p/a.dat", "data/p/in/b.dat"):
        put(root, key)
    put(other, "data/o_0.dat")
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=(key,)) for n, key in enumerate(due)))
    rig.mark(
        "dropped",
        NewMark(id="p", vault="disk", prefix="data/p/"),
        NewMark(id="o", vault="other", keys=("data/o_0.dat",)),
    )
    rig.mark("dropped", NewMark(id="gone", vault="disk", keys=("data/none_0.dat",)))
    rig.later(RETENTION["dropped"] + 1)
    deleting(rig)
    report = rig.round()

    assert (report.claimed, report.removed, report.deleted, report.absent, report.failed) == (63, 62, 63, 1, 0)
    assert set(listing(root)) == {"data/t1/live_0.dat"}
    assert not listing(other)
    audit_rows = AuditReader(rig.db, audit_locations(rig)).rows(report.round)
    assert {r.key: r.outcome for r in audit_rows} == {
        **dict.fromkeys((*due, "data/p/a.dat", "data/p/in/b.dat", "data/o_0.dat"), "deleted"),
        "data/none_0.dat": "absent",
    }


def test_a_take_over_on_spark_passes_a_damaged_list(
    rig: Rig, deleting: Deleting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, keys = rig.local(tmp_path / "v"), ("a", "b", "c")
    monkeypatch.setattr(resolve, "CHUNK_FILES", 1)  # a chunk, and so a list, for each mark
    for key in keys:
        rig.drop(root, key, key)
    rig.later(RETENTION["dropped"] + 1)
    order = range_order(rig)
    with monkeypatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing(*keys))
        with installed(crash_at("claim.committed", 3)), pytest.raises(Crash):
            rig.recycler.recycle(order, 1, lambda: None)
    rig.update("file_list", {"first_key": keys[1]}, results=b"\x00")
    deleting(rig)

    rig.recycler.recycle(order, 2, lambda: None)

    assert (listing(root).keys(), rig.count("mark")) == ({keys[1]}, 1)
    assert [row.key for row in AuditReader(rig.db, audit_locations(rig)).rows(order.round)] == [keys[0], keys[2]]


def test_spark_keeps_an_orphan_written_again_after_its_claim(owned: Owned, deleting: Deleting) -> None:
    keys = ["data/t9/a_0.dat", "data/t9/b_0.dat"]
    owned.write_live(*file_keys(200))
    for key in keys:
        owned.write_old(key)
    for seconds in (0, DAY + 60):
        owned.check(after=seconds)
    owned.repairs.orphans("shop")
    owned.check(after=3 * DAY + 60)
    owned.later(60)
    deleting(owned)

    with installed(at_point("claim.committed", lambda: put(owned.root, keys[0]))):
        report = owned.round()

    assert (report.deleted, report.failed) == (1, 1)
    assert [(owned.root / key).exists() for key in keys] == [True, False]
    assert owned.count("mark", quarantined_reason=Reason.CHANGED) == 1


def due(rig: Rig, root: Path, marks: int) -> None:
    for n in range(marks):
        rig.drop(root, f"data/t{n:03}_0.dat", f"m{n}")
    rig.later(RETENTION["dropped"] + 1)


def test_a_vault_unreachable_by_executors_is_not_claimed_further(
    rig: Rig, deleting: Deleting, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process can use the vault, its executors cannot: whole ranges were claimed, and nothing was deleted."""
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


def test_an_audit_folder_is_not_written_on_other_machines(
    rig: Rig, sessions: Sessions, deleting: Deleting, tmp_path: Path
) -> None:
    away = SimpleNamespace(local=False, cores=None, of=sessions.of)
    for audit_url in ("file:///audits", "/audits"):
        work = Work(
            where=target(rig).model_copy(update={"database_url": "postgresql://h/d"}), requests=1, audit_url=audit_url
        )
        assert not SparkDeleter(away, work, 4).work.audits  # type: ignore[arg-type]
        assert SparkDeleter(sessions, work, 4).work.audits
    on_s3 = work.model_copy(update={"audit_url": "s3://bucket/a"})
    assert SparkDeleter(away, on_s3, 4).work.audits  # type: ignore[arg-type]

    due(rig, rig.local(tmp_path / "disk"), 5)
    deleting(rig)._parts.deleter.work = Work(where=target(rig), requests=1, audits=False)  # type: ignore[attr-defined]
    report = rig.round()

    assert report.deleted == 5
    assert len(list((tmp_path / "disk/_sexton/audit").rglob("*.parquet"))) == 1  # told once, by this process


PAGES, CAP = 6, 1_000


class Scene(NamedTuple):
    """A rig that deletes on Spark, in a bucket behind a proxy."""

    rig: Rig
    proxy: FaultProxy
    cold: Bucket
    server: int
    """The process of Spark's server."""


class Event(NamedTuple):
    """What happens ``before`` a round or once it deletes, how that ends the round, and the marks that it keeps."""

    before: Callable[[Scene], object] = lambda _: None
    during: Callable[[Scene], object] = lambda _: None
    error: type[Exception] | None = None
    kept: Sequence[str] = ()


def kill_executor(scene: Scene) -> None:
    """Kill every Python process of Spark's that runs tasks: a child of another one, which starts them."""
    stats = (file.read_text().rpartition(")") for file in Path("/proc").glob("[0-9]*/stat"))
    found = {int(head.split()[0]): (head.split("(")[1], tail.split()) for head, _, tail in stats}
    pythons = {pid: int(tail[1]) for pid, (name, tail) in found.items() if int(tail[3]) == scene.server != pid}
    workers = [pid for pid, parent in pythons.items() if parent in pythons and found[pid][0].startswith("python")]
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


HELD = f"t{PAGES * PAGE - MARK_KEYS:06}"
EVENTS = {
    "a cap": Event(before=lambda s: s.rig.all_stores.paces.put_cap("shop/cold", CAP)),
    "a 503": Event(before=lambda s: s.proxy.fail_next("DeleteObjects", 503, "SlowDown", 5)),
    "a stop": Event(during=lambda s: s.rig.controls.put(ControlKind.STOP, "shop"), error=Halted),
    "a hold": Event(
        during=lambda s: s.rig.holds.place(
            Hold(instance="shop", scope="mark", mark_kind="dropped", mark_id=HELD, reason="audit"), DAY
        ),
        kept=[HELD],
    ),
    "a killed executor": Event(during=kill_executor, error=SparkFailed),
}


@pytest.fixture
def scene(
    database_url: str, s3_server: RunningS3, bucket: str, proxy: FaultProxy, sessions: Sessions, deleting: Deleting
) -> Iterator[Scene]:
    rig, cold = Rig(database_url, endpoint_url=proxy.url).instance(), Bucket(s3_server, bucket)
    rig.s3(bucket)
    cold.fill_now(rig, PAGES)
    deleting(rig)
    with sessions.of("start"):
        yield Scene(rig, proxy, cold, sessions.server_pid or 0)
    rig.db.close()


@pytest.mark.parametrize("name", EVENTS)
def test_deletion_on_spark_is_right_through(name: str, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is not kept is deleted, by the next round where an event has ended this one, and nothing else."""
    for setting, value in (("GROUP_FILES", PAGE), ("CHUNK_MARKS", PAGE // MARK_KEYS)):
        monkeypatch.setattr(ranges, setting, value)
    (rig, proxy, cold, _), event = scene, EVENTS[name]
    proxy.delay("DeleteObjects", 2.0)
    event.before(scene)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(rig.round)
        eventually("Spark deletes", lambda: deletes(proxy))
        event.during(scene)
        if event.error is None:
            proxy.delay("DeleteObjects", 0)
        error = ended.exception()
    proxy.delay("DeleteObjects", 0)
    assert type(error) is (event.error or type(None)), error
    if error is not None:
        assert rig.count("mark") > 0
        rig.controls.remove(ControlKind.STOP, "shop")
        rig.later(3_600)  # the lease has ended
    report = ended.result() if error is None else rig.round()

    requests = deletes(proxy)
    named = {key for request in requests for key in request.keys if request.status == 200}
    kept = {key for key in cold.garbage if f"t{int(key[-10:-4]) // MARK_KEYS * MARK_KEYS:06}" in event.kept}
    assert (report.failed, rig.count("mark"), named) == (0, len(event.kept), cold.garbage - kept)
    assert cold.listing() == cold.needed | {key for key in kept if int(key[-10:-4]) % REAL_EVERY == 0}
    if name == "a cap":
        assert requests[-1].time - requests[0].time > 0.8 * PAGES * PAGE / CAP
