"""Protections while rounds run: chunks that come in between, and renewals that race the reaper. P22 and P23."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sexton.contract import NewMark
from sexton.protection.errors import NotFound
from sexton.protection.model import Item, Protection, Sealed, Terms
from sexton.protection.registrar import REPORT, Registrar
from sexton.protection.rows import digest
from sexton.protection.store import ProtectionStore
from tests.rig import Rig, listing, put

MARKS, CHUNK = 240, 20


def test_p22_each_chunk_is_honoured_from_its_commit_and_what_is_named_is_exactly_what_went(
    rig: Rig, tmp_path: Path
) -> None:
    root = rig.local(tmp_path / "v")
    keys = [f"m/{n:03}.dat" for n in range(MARKS)]
    rig.later(10_801)
    items = [Item("disk", key) for key in keys]
    rig.protections.open(Protection(instance="shop", job="j", owner="ada", digest=digest(items)), 80_000)
    registering = threading.Event()

    def rounds() -> None:
        for wave in range(4):  # the last chunks find nothing marked, the first ones come before any claim
            for key in keys[wave * MARKS // 4 : (wave + 1) * MARKS // 4]:
                put(root, key)
                rig.mark("dropped", NewMark(id=key[2:5], vault="disk", keys=(key,)))
            rig.later(10_801)
            rig.round()
            registering.set()

    with ThreadPoolExecutor(1) as pool:
        recycling = pool.submit(rounds)
        assert registering.wait(20), recycling.exception()
        told: list[Sealed] = []
        for n in range(0, MARKS, CHUNK):
            put(root, f"later/{n}.dat")
            told.append(rig.registrar.add("shop", "j", n // CHUNK, items[n : n + CHUNK]))
        recycling.result()
    sealed = rig.registrar.seal("shop", "j", on_missing=REPORT).sealed
    rig.round()
    there = set(listing(root))

    named = {name.removeprefix("disk/").rpartition(": ")[0] for t in told for name in t.named}
    # What was not yet written when its chunk came is named as not there, and was kept all the same.
    assert set(keys) - named <= there
    assert set(keys) - there <= named
    assert sealed is not None
    assert (sealed.objects, sealed.claimed + sealed.missing) == (MARKS, len(named))
    assert named
    assert set(keys) - named


def test_p23_a_renewal_that_races_the_reaper_is_renewed_or_not_found(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "data/a.dat")
    store = ProtectionStore(rig.db, Terms(max_count=10_000))
    items = [Item("disk", "data/", prefix=True)]
    renewed, gone = set[str](), set[str]()

    def renew(job: str) -> None:
        start.wait(30)
        try:
            store.renew("shop", job, 600)
            renewed.add(job)
        except NotFound:
            gone.add(job)

    for turn in range(6):
        jobs = [f"{turn}-{n}" for n in range(8)]
        registrar = Registrar(store, rig.vaults)
        for job in jobs:
            registrar.whole(Protection(instance="shop", job=job, owner="ada", digest=digest(items)), items, 10)
        rig.later(11)
        start = threading.Barrier(len(jobs) + 1)
        with ThreadPoolExecutor(len(jobs)) as pool:
            sides = [pool.submit(renew, job) for job in jobs]
            start.wait(30)
            store.end_due("shop")
            for side in sides:
                side.result()
    store.end_due("shop")  # what was passed over because it was being renewed is looked at again

    assert {p.job for p in store.all("shop")} == renewed
    assert len(renewed) + len(gone) == 48
