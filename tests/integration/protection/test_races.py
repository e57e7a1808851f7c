"""Nothing protected or committed is deleted while a round, or a request on its way, may delete it (P22, P23)."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import Collected, NewMark
from sexton.kernel import crash_points
from sexton.protection.filter import Filter
from sexton.protection.model import Invalid, Item, Protection, ProtectionNotFound, ProtectionSettings, Sealed
from sexton.protection.policy import digest
from sexton.protection.registrar import REPORT, Registrar
from sexton.protection.sql import admission
from sexton.protection.sql.store import ProtectionStore
from tests.integration.protection.registrations import protect, registration
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, range_order, replaced_worker
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.pauses import Pauses
from tests.support.rig import Rig, listing, put

NAMED = 100
"""Names a chunk is told of at most; their number it is told always."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objects", "chunk", "per_mark"),
    [(240, 20, 1), pytest.param(1_000_000, 12_500, 250, marks=pytest.mark.soak)],
    ids=["240", "1000000"],
)
def test_p22_each_chunk_protects_from_its_commit(
    rig: Rig, tmp_path: Path, objects: int, chunk: int, per_mark: int
) -> None:
    root = rig.local(tmp_path / "v")
    keys = [f"m/{n // 1_000:03}/{n:06}.dat" for n in range(objects)]
    rig.later(10_801)
    items = [Item("disk", key) for key in keys]
    rig.protections.open(Protection(instance="shop", job="j", owner="ada", digest=digest(items)), 80_000)
    first_round_ended, half_registered = threading.Event(), threading.Event()

    def rounds() -> None:
        for wave in range(4):  # the last chunks find nothing marked, the first ones come before any claim
            if wave == 3:
                assert half_registered.wait(PATIENCE_SECONDS)
            wave_keys = keys[wave * objects // 4 : (wave + 1) * objects // 4]
            for n, key in enumerate(wave_keys):
                (root / key).parent.mkdir(parents=True, exist_ok=True) if n % 1_000 == 0 or objects < 1_000 else None
                (root / key).write_bytes(b"x")
            keys_by_mark = (wave_keys[n : n + per_mark] for n in range(0, len(wave_keys), per_mark))
            rig.mark(
                "dropped",
                *(NewMark(id=mark_keys[0][-10:-4], vault="disk", keys=tuple(mark_keys)) for mark_keys in keys_by_mark),
            )
            rig.round(after=10_801)
            first_round_ended.set()

    with ThreadPoolExecutor(1) as pool:
        recycling = pool.submit(rounds)
        eventually("the first round has ended", lambda: first_round_ended.is_set() or recycling.done())
        receipts: list[Sealed] = []
        for n in range(0, objects, chunk):
            put(root, f"later/{n}.dat")
            receipts.append(rig.registrar.add("shop", "j", n // chunk, items[n : n + chunk]))
            if n >= objects // 2:
                half_registered.set()
        recycling.result()
    sealed = rig.registrar.seal("shop", "j", on_missing=REPORT).sealed
    rig.round()
    existing = {key for key in keys if (root / key).exists()}

    for n, receipt in enumerate(receipts):
        lost = set(keys[n * chunk : (n + 1) * chunk]) - existing
        named_keys = {name.removeprefix("disk/").rpartition(": ")[0] for name in receipt.named}
        # A key that was not written yet when its chunk came is named as missing, and is kept all the same.
        assert len(lost) <= receipt.claimed + receipt.missing
        assert len(named_keys) == min(NAMED, receipt.claimed + receipt.missing)
        assert lost <= named_keys or len(named_keys) == NAMED
    assert sealed is not None
    unprotected = sum(receipt.claimed + receipt.missing for receipt in receipts)
    assert (sealed.objects, sealed.claimed + sealed.missing) == (objects, unprotected)
    assert set(keys) - existing
    assert unprotected < objects


@pytest.mark.slow
def test_p23_a_renewal_that_races_reaping_wins_or_is_not_found(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "data/a.dat")
    store = ProtectionStore(rig.db, ProtectionSettings(max_count=10_000))
    items = [Item("disk", "data/", prefix=True)]
    renewed, not_found = set[str](), set[str]()

    def renew(job: str) -> None:
        start.wait(PATIENCE_SECONDS)
        try:
            store.renew("shop", job, 600)
            renewed.add(job)
        except ProtectionNotFound:
            not_found.add(job)

    for turn in range(6):
        jobs = [f"{turn}-{n}" for n in range(8)]
        registrar = Registrar(store, rig.vaults)
        for job in jobs:
            registrar.register_at_once(
                Protection(instance="shop", job=job, owner="ada", digest=digest(items)), items, 10
            )
        rig.later(11)
        start = threading.Barrier(len(jobs) + 1)
        with ThreadPoolExecutor(len(jobs)) as pool:
            sides = [pool.submit(renew, job) for job in jobs]
            start.wait(PATIENCE_SECONDS)
            store.end_due("shop")
            for side in sides:
                side.result()
    store.end_due("shop")  # jobs that were skipped during their renewal are checked again

    assert {p.job for p in store.list_protections("shop")} == renewed
    assert len(renewed) + len(not_found) == 48


PAUSE_SECONDS = 0.02
REGISTRARS, COMMITTERS = 8, 6
LOADS, MARKS, FILES = 60, 160, 10
"""Loads that are committed while they fall due; marks that registrars pick from; files of each."""
JOBS = 7
"""Registrations of each registrar: with many more all marks would be kept, and nothing claimed."""


class Race:
    """What each side was told, to be compared with what is left."""

    def __init__(self, rig: Rig, root: Path) -> None:
        self.rig, self.root, self.over = rig, root, threading.Event()
        self.protected: set[str] = set()
        self.committed: set[str] = set()
        self.late: set[str] = set()
        self.refused = 0
        self._lock = threading.Lock()
        self.loads = [f"load{n}" for n in range(LOADS)]

    def fill(self) -> None:
        for n in range(MARKS):
            for f in range(FILES):
                put(self.root, f"m/{n}/{f}.dat", 1)
        files = {n: tuple(f"m/{n}/{f}.dat" for f in range(FILES)) for n in range(0, MARKS, 2)}
        key_marks = (NewMark(id=f"k{n}", vault="disk", keys=keys) for n, keys in files.items())
        prefix_marks = (NewMark(id=f"p{n}", vault="disk", prefix=f"m/{n}/") for n in range(1, MARKS, 2))
        self.rig.mark("dropped", *key_marks, *prefix_marks)
        for load in self.loads:
            for f in range(FILES):
                put(self.root, f"l/{load}/{f}.dat", 1)
            with self.rig.db.write() as c:
                contract.prepare(c, "shop", load, [load], "disk", [f"l/{load}/"], 1)
        self.rig.later(300_000)

    def recycle(self) -> None:
        try:
            for _ in range(3):
                self.rig.round()
        finally:
            self.over.set()

    def commit(self, number: int) -> None:
        pause = Pauses(4 * PAUSE_SECONDS)
        for load in self.loads[number::COMMITTERS]:
            pause()
            try:
                self.rig.commit(load)
            except Collected:
                self.refused += 1
            else:
                with self._lock:
                    self.committed |= {f"l/{load}/{f}.dat" for f in range(FILES)}

    def register(self, number: int) -> None:
        """Register random objects, a few at a time; expect exactly what the receipts promise."""
        store = ProtectionStore(self.rig.db, ProtectionSettings(max_count=10_000))
        registrar, pause = Registrar(store, self.rig.vaults), Pauses(8 * PAUSE_SECONDS)
        for n in range(JOBS):
            if n == JOBS - 1:
                self.over.wait()  # the last job comes after all deletes
            job = f"job-{number}-{n}"
            keys = {f"m/{random.randrange(MARKS)}/{random.randrange(FILES)}.dat" for _ in range(5)}
            items = [Item("disk", key) for key in keys]
            store.open(Protection(instance="shop", job=job, owner="race", digest=digest(items)), 80_000)
            pause()
            receipt = registrar.add("shop", job, 0, items)
            registrar.seal("shop", job, on_missing=REPORT)
            named_keys = {name.removeprefix("disk/").rpartition(": ")[0] for name in receipt.named}
            with self._lock:
                self.protected |= keys - named_keys
                self.late |= named_keys


@pytest.mark.slow
def test_no_protected_or_committed_object_is_deleted(rig: Rig, tmp_path: Path) -> None:
    """Whoever wins; test_rounds.py forces the interleavings that matter."""
    race = Race(rig, rig.local(tmp_path / "v"))
    race.fill()
    with crash_points.installed(Pauses(PAUSE_SECONDS)), ThreadPoolExecutor(REGISTRARS + COMMITTERS + 1) as pool:
        sides = [pool.submit(race.recycle)]
        sides += [pool.submit(race.commit, n) for n in range(COMMITTERS)]
        sides += [pool.submit(race.register, n) for n in range(REGISTRARS)]
        for side in sides:
            side.result()
    left = set(listing(race.root))

    assert race.protected - left == set()
    assert race.committed - left == set()


def test_a_registration_waits_for_a_replaced_worker(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    rig.drop_files(root, "m", "t/a.dat", "other/b.dat", prefix="t/")
    rig.later(DUE_SECONDS)
    filter_ = Filter.build([Item("disk", "t/a.dat")], 1)
    with replaced_worker(rig, range_order(rig)):
        assert rig.row("dropped", "m").first_pass_at is not None
        sealed = rig.registrar.register_at_once(registration("filter", filter_=filter_), [], filter_=filter_).sealed
        put(root, "t/a.dat")  # an upload that began before the claim ends late
        put(root, "t/inner/a.dat")
        for name in ("t/a.dat", "t/", "t/inner/"):
            with pytest.raises(Invalid, match="being deleted"):
                protect(rig, "job", name)
        protect(rig, "other job", "other/")
    rig.later(38)
    put(root, "t/a.dat")

    assert sealed is not None
    assert sealed.named == ("disk/t/: claimed",)
    assert protect(rig, "job", "t/").state == "ACTIVE"


def test_prefixes_overlap_where_one_begins_with_the_other() -> None:
    registered = admission.Prefixes([Item("disk", f"p{n}/", prefix=True) for n in range(100)])

    for prefix in ("p7/", "p7/inner/", "p", "", "p7"):
        assert registered.overlap("disk", prefix), prefix
        assert not registered.overlap("hot", prefix), prefix
    for prefix in ("q/", "a/p7/"):
        assert not registered.overlap("disk", prefix), prefix
