"""Registrars, committers and a recycler run at once, and no protected or committed object is deleted."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import Collected, NewMark
from sexton.kernel import crash_points
from sexton.protection.model import Item, Protection, ProtectionSettings
from sexton.protection.registrar import REPORT, Registrar
from sexton.protection.sql.rows import digest
from sexton.protection.sql.store import ProtectionStore
from tests.support.pauses import Pauses
from tests.support.rig import Rig, listing, put

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
                with self.rig.db.write() as c:
                    contract.commit(c, "shop", [load])
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
